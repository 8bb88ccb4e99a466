package specs

import (
	"net/netip"
	"slices"
	"time"
)

// Set is everything that should hold on a host, and the facts that decide
// how. Lists are sorted by name (facts by their key); names are unique within
// a list.
type Set struct {
	Secrets      []Secret      `json:"secrets,omitempty"`
	Environments []Environment `json:"environments,omitempty"`
	Proxies      []Proxy       `json:"proxies,omitempty"`
	Networks     []Network     `json:"networks,omitempty"`
	Seccomps     []Seccomp     `json:"seccomps,omitempty"`
	Sandboxes    []Sandbox     `json:"sandboxes,omitempty"` // concrete ones; extends is resolved, abstract ones are gone
	Databases    []Database    `json:"databases,omitempty"`
	Gateways     []Gateway     `json:"gateways,omitempty"`
	Projects     []Project     `json:"projects,omitempty"` // for_each is expanded

	// Facts, found by the enforcers' Survey; never part of [Set.Digest].
	Leases    []Lease    `json:"leases,omitempty"`
	Tables    []Table    `json:"tables,omitempty"`
	Functions []Function `json:"functions,omitempty"`
	Servers   []Server   `json:"servers,omitempty"`
}

// Range is where in the files a thing was written. The zero Range means
// "nowhere": the thing was not read from a file. Lines and columns count
// from 1; columns count grapheme clusters, bytes count from 0.
type Range struct {
	File                   string
	Line, Column, Byte     int
	EndLine, EndCol, EndBy int
}

// Secret says where a credential is found at the moment of use. Exactly one
// of File, Env, Command, Systemd and Vault is set. The value itself is in no Set.
type Secret struct {
	Range   Range        `json:"-"`
	Name    string       `json:"name"`
	File    string       `json:"file,omitempty"`    // absolute path; one trailing newline is not part of the secret
	Env     string       `json:"env,omitempty"`     // name of a variable of cordon's own environment
	Command []string     `json:"command,omitempty"` // argv, absolute path first; its standard output is the secret
	Systemd string       `json:"systemd,omitempty"` // name of a credential of cordon's own unit, see systemd.exec(5) LoadCredential=
	Vault   *VaultSecret `json:"vault,omitempty"`

	// TTL is for how long what a Command or Vault said is used again; 5
	// minutes when not declared.
	TTL time.Duration `json:"ttl,omitempty"`
}

// Environment is what of the caller's environment reaches a session: names
// that match Allow, then Set on top. Everything else is stripped.
type Environment struct {
	Range Range               `json:"-"`
	Name  string              `json:"name"`
	Allow []string            `json:"allow,omitempty"` // names; a trailing * matches any rest
	Set   map[string]Template `json:"set,omitempty"`
}

// Proxy is an LLM reverse proxy that sessions may be allowed to reach.
type Proxy struct {
	Range    Range             `json:"-"`
	Name     string            `json:"name"`
	Port     int               `json:"port"` // TCP, 1 to 65535
	Upstream string            `json:"upstream"`
	Inject   map[string]string `json:"inject,omitempty"` // header → name of a secret
	Paths    []string          `json:"paths,omitempty"`  // of Upstream, see [Upstream.Paths]
	Token    *Token            `json:"token,omitempty"`
	Limit    *ProxyLimit       `json:"limit,omitempty"`

	// More upstreams, in the order declared: those of one kind and path stand
	// in for each other. Upstream, Inject and Paths above are the first one,
	// of the kind "anthropic", written short.
	Upstreams []Upstream  `json:"upstreams,omitempty"`
	Policy    *BodyPolicy `json:"policy,omitempty"` // nil: the strictest but for models and max_tokens, of which all are allowed
	Budgets   []Budget    `json:"budgets,omitempty"`
	Prices    []Price     `json:"prices,omitempty"`
}

// Token is how a proxy's session tokens look and how long they live.
type Token struct {
	Prefix string        `json:"prefix,omitempty"`
	TTL    time.Duration `json:"ttl,omitempty"` // 4 h when not declared
}

// ProxyLimit bounds what one session may ask of a proxy; 0 is no bound.
type ProxyLimit struct {
	RequestsPerMinute int   `json:"requests_per_minute,omitempty"`
	Concurrent        int   `json:"concurrent,omitempty"`
	Body              int64 `json:"body,omitempty"` // bytes
}

// What a network's sessions may reach beyond Allow.
const (
	EgressNone     = "none"     // nothing: no default route
	EgressInternet = "internet" // NAT; private ranges, the host and other slots stay closed
)

// What happens when a session can't have a namespace of its network.
const (
	FallbackRefuse   = "refuse"   // the session does not start
	FallbackIsolated = "isolated" // it starts without any network
)

// Network is a pool of slots: network namespaces joined to the host by a
// veth pair, one for each session.
type Network struct {
	Range    Range          `json:"-"`
	Name     string         `json:"name"`
	Pool     netip.Prefix   `json:"pool"`            // IPv4, masked; cut into /30 slots
	Allow    []string       `json:"allow,omitempty"` // names of proxies
	Egress   string         `json:"egress"`
	Deny     []netip.Prefix `json:"deny,omitempty"` // with EgressInternet: on top of the private ranges
	Fallback string         `json:"fallback"`
	Warm     int            `json:"warm,omitempty"` // free slots that stand ready
	Publish  bool           `json:"publish,omitempty"`
}

// Seccomp is a system call filter.
type Seccomp struct {
	Range Range    `json:"-"`
	Name  string   `json:"name"`
	Base  string   `json:"base"`            // "container"
	Deny  []string `json:"deny,omitempty"`  // answered with Errno though the base allows them
	Allow []string `json:"allow,omitempty"` // allowed though the base does not
	Errno string   `json:"errno,omitempty"` // name, "EPERM" when not declared
	Log   bool     `json:"log,omitempty"`   // the kernel logs refused calls
}

// What happens to a running session whose profile changes.
const (
	OnChangeKeep    = "keep"    // it runs on, shown as stale
	OnChangeRestart = "restart" // it is ended and started again
)

// Sandbox is a profile: what a session started in it has and may do.
type Sandbox struct {
	Range        Range      `json:"-"`
	Name         string     `json:"name"`
	Command      []Template `json:"command,omitempty"` // what runs when `cordon run` names no command
	Network      string     `json:"network,omitempty"` // name; "" is no network at all
	Namespaces   []string   `json:"namespaces"`        // of pid, ipc, uts, cgroup, sorted; mount, user and net always
	Filesystem   Filesystem `json:"filesystem"`
	Environment  string     `json:"environment,omitempty"` // name; "" passes nothing
	Seccomp      string     `json:"seccomp"`               // name of a seccomp block; "" is the base "container" as it is
	Capabilities []string   `json:"capabilities,omitempty"`
	Limits       Limits     `json:"limits"`
	Agent        *Agent     `json:"agent,omitempty"`
	OnChange     string     `json:"on_change"`
	StopSignal   string     `json:"stop_signal"` // what asks a session to end, without "SIG"; "TERM" when not declared

	Grace time.Duration `json:"grace"` // from the stop signal to the kill; 10 s when not declared
}

// Filesystem is what a session finds below /. Nothing else of the host is there.
type Filesystem struct {
	Programs []string `json:"programs,omitempty"` // absolute paths; with interpreter and libraries
	Files    []string `json:"files,omitempty"`    // absolute paths of files or directories, read-only, where they are on the host
	Tmpfs    []Tmpfs  `json:"tmpfs,omitempty"`    // sorted by path
	Binds    []Bind   `json:"binds,omitempty"`    // sorted by target
}

// Tmpfs is a writable directory in memory, gone with the session.
type Tmpfs struct {
	Range Range  `json:"-"`
	Path  string `json:"path"`
	Size  int64  `json:"size"` // bytes; 64 MiB when not declared
}

// Bind shows a directory or file of the host inside.
type Bind struct {
	Range    Range    `json:"-"`
	To       string   `json:"to"` // absolute path inside
	From     Template `json:"from"`
	Writable bool     `json:"writable,omitempty"`
}

// Limits bounds a session's cgroup; 0 is no bound.
type Limits struct {
	Memory int64 `json:"memory,omitempty"` // bytes, swap included
	CPU    int   `json:"cpu,omitempty"`    // percent of one core
	Pids   int   `json:"pids,omitempty"`   // tasks: processes and threads
}

// Agent prepares a sandbox for a known client.
type Agent struct {
	Range      Range    `json:"-"`
	Kind       string   `json:"kind"` // one of [AgentKinds]
	Proxy      string   `json:"proxy,omitempty"`
	Hide       []string `json:"hide,omitempty"`       // names; a trailing * matches any rest
	Transcript string   `json:"transcript,omitempty"` // absolute, or below the home: "~/…"
	Home       string   `json:"home,omitempty"`
}

// HomeProject is the home that is kept: sessions of the same project and
// sandbox share it. Any other goes with its session.
const HomeProject = "project"

// Database is a PostgreSQL database that projects have schemas in.
type Database struct {
	Range      Range  `json:"-"`
	Name       string `json:"name"`
	Connection string `json:"connection"` // name of the secret that holds its URL

	// Public is what every role of the server may do: of connect, temporary
	// and, in the schema public, create, usage; sorted. nil: connect, usage.
	Public []string `json:"public,omitempty"`
	// Trusted are views, functions and the like outside the projects' schemas
	// that the projects' roles may use though they reach rows with rights of
	// others, as SQL names them: public.orders_view, public.f(integer); sorted.
	Trusted []string `json:"trusted,omitempty"`
	// Authenticator is the login that becomes the projects' roles for those
	// who ask; "" is none.
	Authenticator string `json:"authenticator,omitempty"`
	// Settings are what the authenticator's sessions in the database begin
	// with, of [DatabaseSettings].
	Settings map[string]string `json:"settings,omitempty"`
}

// Gateway is the HTTP and SQL access to a database. Declared, enforced by a later build.
type Gateway struct {
	Range    Range    `json:"-"`
	Name     string   `json:"name"`
	Listen   string   `json:"listen"`
	Database string   `json:"database"`
	Keys     string   `json:"keys,omitempty"` // name of a secret
	Console  *Console `json:"console,omitempty"`
}

// Console is SQL typed by people through a gateway.
type Console struct {
	Deny     []string      `json:"deny,omitempty"`
	Timeout  time.Duration `json:"timeout,omitempty"`
	RowLimit int           `json:"row_limit,omitempty"`
}

// Project is a tenant: a directory, whom its sessions run as, what they may
// be, and its share of a database.
type Project struct {
	Range     Range      `json:"-"`
	Name      string     `json:"name"`
	Directory string     `json:"directory"`           // absolute
	User      string     `json:"user,omitempty"`      // of the host; "" is the owner of Directory
	Sandboxes []string   `json:"sandboxes,omitempty"` // names, sorted
	Operators []string   `json:"operators,omitempty"` // "user:NAME" or "group:NAME"
	Git       *Git       `json:"git,omitempty"`
	Schema    *Schema    `json:"schema,omitempty"`
	DevServer *DevServer `json:"dev_server,omitempty"`
	Preview   *Preview   `json:"preview,omitempty"`
}

// Schema is a project's schema in a database, of the project's name, with
// the roles NAME_anon, NAME_user, NAME_admin and NAME_service.
type Schema struct {
	Range       Range         `json:"-"`
	Database    string        `json:"database"`
	OwnerColumn string        `json:"owner_column,omitempty"` // "" : the logged-in see nothing that is not declared
	Tables      []TableAccess `json:"tables,omitempty"`       // sorted by name

	// Functions are those that others than admin and service may execute,
	// sorted by name.
	Functions []FunctionAccess `json:"functions,omitempty"`
}

// FunctionAccess is who may execute the functions and procedures of a name,
// whatever their arguments, besides admin and service.
type FunctionAccess struct {
	Range         Range  `json:"-"`
	Name          string `json:"name"`
	Anonymous     bool   `json:"anonymous,omitempty"` // includes the logged-in
	Authenticated bool   `json:"authenticated,omitempty"`
}

// TableAccess is what is declared about one table. A nil list was not
// declared and means the default; an empty one means nothing.
type TableAccess struct {
	Range         Range    `json:"-"`
	Name          string   `json:"name"`
	Anonymous     []string `json:"anonymous"`     // of select, insert, update, delete, sorted; nil: nothing
	Authenticated []string `json:"authenticated"` // the same; nil: all four on own rows
	OwnerColumn   string   `json:"owner_column,omitempty"`

	// OwnerColumns are owner columns of single commands, before OwnerColumn.
	OwnerColumns map[string]string `json:"owner_columns,omitempty"`
	// Columns bound select, insert and update to some columns, sorted, for
	// anonymous and logged-in.
	Columns map[string][]string `json:"columns,omitempty"`
	// Check is an SQL condition that rows must meet which the anonymous or the
	// logged-in write, besides being theirs.
	Check string `json:"check,omitempty"`
}

// DevServer is a long-running server of a project. Declared, enforced by a later build.
type DevServer struct {
	Range   Range    `json:"-"`
	Sandbox string   `json:"sandbox"`
	Command []string `json:"command"`
	User    string   `json:"user"`
	Port    int      `json:"port"`
}

// Preview serves a project's built files. Declared, enforced by a later build.
type Preview struct {
	Range     Range  `json:"-"`
	Image     string `json:"image"`
	Directory string `json:"directory"`
	Port      int    `json:"port"`
}

// NoSlot is the Slot of a session without a network namespace of cordon's.
const NoSlot = -1

// Lease is a session that runs: a fact. It lives as long as the process that
// holds it (see enforcers/session); what it names (slot, cgroup, membership)
// is desired for as long.
type Lease struct {
	ID      string    `json:"id"` // 8 lower-case hexadecimal digits
	Sandbox string    `json:"sandbox"`
	Project string    `json:"project,omitempty"` // "" : a session outside any project
	User    string    `json:"user"`              // whom it is on the host
	Network string    `json:"network,omitempty"` // "" when Slot is NoSlot
	Slot    int       `json:"slot"`
	Limits  Limits    `json:"limits"` // what it was started with
	Digest  string    `json:"digest"` // [Set.SandboxDigest] at its start
	Started time.Time `json:"started"`
	Command []string  `json:"command,omitempty"`
	PID     int       `json:"pid,omitempty"` // of the process that holds it

	Operator *uint32 `json:"operator,omitempty"` // the user who had the daemon start it; nil: root did by itself
}

// Find returns a pointer to the element of list called name, or nil.
// It is for the lists of a Set, which are sorted by name.
func Find[T Named](list []T, name string) *T {
	i, ok := slices.BinarySearchFunc(list, name, func(e T, n string) int {
		switch {
		case e.ID() < n:
			return -1
		case e.ID() > n:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return &list[i]
}

// Named is a block that has a name of its own within its kind.
type Named interface{ ID() string }

// ID returns the block's name; so do the methods below.
func (s Secret) ID() string      { return s.Name }
func (e Environment) ID() string { return e.Name }
func (p Proxy) ID() string       { return p.Name }
func (n Network) ID() string     { return n.Name }
func (s Seccomp) ID() string     { return s.Name }
func (s Sandbox) ID() string     { return s.Name }
func (d Database) ID() string    { return d.Name }
func (g Gateway) ID() string     { return g.Name }
func (p Project) ID() string     { return p.Name }
