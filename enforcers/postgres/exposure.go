package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/reconciler"
)

// Exposure is something outside the projects' schemas by which PUBLIC or a
// project's role reaches rows of projects with rights that are not its own, or
// becomes somebody. None is ever desired. Of the object, which is somebody
// else's, nothing is changed but these privileges (of a setting, its value).
type Exposure struct {
	Database string   `json:"-"`
	Schema   string   `json:"-"`                // "" where the object is in none
	Object   string   `json:"-"`                // as SQL names it: public.orders_view, public.f(integer); or with a word before it: setting role
	Kind     string   `json:"kind"`             // view, function, setting and so on
	Rights   string   `json:"rights,omitempty"` // whose, or what gives them
	Reaches  []string `json:"reaches,omitempty"`
	Grants   []Grant  `json:"grants,omitempty"`
}

// Addr is postgres.exposure.DATABASE.OBJECT.
func (x Exposure) Addr() reconciler.Addr {
	return reconciler.NewAddr(Name, "exposure", x.Database, x.Object)
}

// Needs returns nothing.
func (x Exposure) Needs() []reconciler.Addr { return nil }

// Excess implements [reconciler.Excess].
func (x Exposure) Excess() bool { return true }

// exposing is an object that could expose rows, whoever may use it.
type exposing struct {
	kind, schema, name, object string
	target, owner, rights      string // target as GRANT names it; of a setting "here": in this database only, or byServer
	acl                        []privilege
	unnamed                    bool // it can be had without its schema
	reaches                    []string
	does                       []string // of a relation: what reaches them, as "SELECT" or "SELECT (column)"
}

// exposingSettings make somebody of those who are nobody, or take away what
// keeps rows (event_triggers, from 17 on, the guard of new tables): besides all
// that begin with "request.", where claims are.
var exposingSettings = [...]string{"role", "row_security", "session_replication_role", "lo_compat_privileges", "event_triggers"}

func (s *state) queueExposing(b *pgx.Batch) {
	b.Queue(exposedRelationsSQL).Query(func(rows pgx.Rows) error {
		var x exposing
		var kind, base, does string
		_, err := pgx.ForEachRow(rows, []any{&x.schema, &x.name, &x.object, &kind, &x.owner, &base, &does}, func() error {
			last := len(s.exposing) - 1
			if last < 0 || s.exposing[last].object != x.object {
				found := x
				found.kind, found.rights = kinds[kind], x.owner
				found.target = (&relation{schema: x.schema, name: x.name, kind: kind}).target()
				s.exposing = append(s.exposing, found)
				last++
			}
			to := &s.exposing[last]
			to.reaches, to.does = append(to.reaches, base), append(to.does, does)
			return nil
		})
		return err
	})
	b.Queue(exposedOthersSQL(s.version), exposingSettings[:]).Query(func(rows pgx.Rows) error {
		var x exposing
		var acl []string
		_, err := pgx.ForEachRow(rows, []any{&x.kind, &x.schema, &x.object, &x.target, &x.owner, &acl, &x.rights, &x.unnamed}, func() error {
			found := x
			var err error
			found.acl, err = parseACL(acl, "")
			s.exposing = append(s.exposing, found)
			return err
		})
		return err
	})
}

// exposed tells who of PUBLIC, the marked roles and the authenticator may use x to reach rows.
func (s *state) exposed(x exposing) []privilege {
	if n := s.schemas[x.schema]; !x.unnamed && x.schema != "" && (n == nil || !slices.ContainsFunc(n.acl, func(p privilege) bool {
		return p.name == "USAGE" && s.reaching(p.grantee, n.owner)
	})) {
		return nil
	}
	acl := x.acl
	if x.does != nil {
		r := s.byName[[2]string{x.schema, x.name}]
		if r == nil {
			return nil
		}
		acl = r.acl
	}
	return slices.DeleteFunc(slices.Clone(acl), func(p privilege) bool {
		return !s.reaching(p.grantee, x.owner) ||
			x.does != nil && !slices.Contains(x.does, p.name) && !slices.Contains(x.does, p.name+" ("+p.column+")")
	})
}

func (s *state) reaching(grantee, owner string) bool {
	return grantee == "" || s.bound(grantee) && grantee != owner
}

// exposure is x in the normal form; ok is false where nobody is let in.
func (s *state) exposure(x exposing) (Exposure, bool) {
	out := Exposure{Database: s.block, Schema: x.schema, Object: x.object, Kind: x.kind, Rights: x.rights}
	if x.open() {
		return out, true
	}
	if x.rights == ownerRights {
		out.Rights = x.owner
	}
	out.Reaches = slices.Compact(slices.Sorted(slices.Values(x.reaches)))
	out.Grants = grantsOf(s.exposed(x), func(string) bool { return true })
	return out, len(out.Grants) > 0
}

// Kinds of what no privilege opens or closes, and whose rights a changed
// function of the server's has.
const (
	eventTrigger  = "event trigger"
	builtin       = "built-in function"
	changedByHand = "who changed it by hand"
)

// open tells what lets everybody in, whatever their privileges.
func (x exposing) open() bool {
	return x.kind == "setting" || x.kind == eventTrigger || x.kind == builtin
}

// byServer is how it tells that a setting is of the server's configuration,
// which no transaction changes.
const byServer = "server"

// ownerRights is how exposedOthersSQL tells that code runs as its owner.
const ownerRights = "its owner"

// exposures are those that nobody trusts.
func (s *state) exposures(trusted []string) []Exposure {
	var out []Exposure
	for _, x := range s.exposing {
		if slices.Contains(trusted, x.object) || len(x.reaches) > 0 && !slices.ContainsFunc(x.reaches, func(base string) bool { return !trusts(trusted, base) }) {
			continue
		}
		if e, open := s.exposure(x); open && (len(out) == 0 || out[len(out)-1].Object != e.Object) {
			out = append(out, e)
		}
	}
	return out
}

// trusts tells whether what a trigger runs, which is how a path begins that
// ends with ")", is trusted.
func trusts(trusted []string, base string) bool {
	return strings.HasSuffix(base, ")") && slices.Contains(trusted, base)
}

func (x Exposure) block() string   { return x.Database }
func (x Exposure) settled() object { return x }

// scope is the object's schema: what is in none is always read.
func (x Exposure) scope() scope {
	if x.Schema == "" {
		return scope{exposing: true}
	}
	return scope{exposing: true, schemas: []string{x.Schema}}
}

func (x Exposure) find(s *state) object {
	for _, l := range s.exposing {
		if l.object != x.Object {
			continue
		}
		if e, open := s.exposure(l); open {
			return e
		}
	}
	return nil
}

func (x Exposure) make(context.Context, pgx.Tx, *state) ([]statement, error) {
	return nil, errNever("privileges that lead past policies")
}

func (x Exposure) unmake(_ context.Context, _ pgx.Tx, s *state) ([]statement, error) {
	var out []statement
	for _, l := range s.exposing {
		switch {
		case l.object != x.Object:
		case l.target == byServer, l.kind == eventTrigger, l.kind == builtin:
			return nil, errors.New(x.note())
		case l.kind == "setting":
			on := "ALTER ROLE ALL"
			if l.target == "here" {
				on = "ALTER DATABASE " + quote(s.database)
			}
			name := strings.Split(strings.TrimPrefix(l.object, "setting "), ".")
			out = append(out, statement{sql: on + " RESET " + quote(name...)})
		default:
			open := s.exposed(l)
			revokes, _ := alterACL(l.target, l.owner, open, func(string) bool { return true }, nil)
			out = append(out, revokes...)
		}
	}
	return out, nil
}

// exposureOf is r, if it is one, also from a snapshot.
func exposureOf(r reconciler.Resource) (Exposure, bool) {
	switch r := r.(type) {
	case Exposure:
		return r, true
	case reconciler.Recorded:
		parts := r.Address.Parts()
		if len(parts) != 4 || parts[0] != Name || parts[1] != "exposure" {
			return Exposure{}, false
		}
		x := Exposure{Database: parts[2], Object: parts[3]}
		return x, json.Unmarshal(r.Attributes, &x) == nil
	}
	return Exposure{}, false
}

// note says what the exposure is, and what becomes of it.
func (x Exposure) note() string {
	if x.Kind == "setting" && x.Rights == "the server" {
		name := strings.TrimPrefix(x.Object, "setting ")
		return fmt.Sprintf("it is set for all who connect by the server's configuration, and decides who they are or what they see; apply can't change it: ALTER SYSTEM RESET %s, or take it out of postgresql.conf or the server's command line, and then SELECT pg_reload_conf()", name)
	}
	switch x.Kind {
	case eventTrigger:
		name := strings.TrimPrefix(x.Object, "event trigger ")
		return fmt.Sprintf("its function is another's, and runs as whoever changes something, a superuser too; apply can't change it: ALTER EVENT TRIGGER %s DISABLE, or give the function to the trigger's owner. If it is meant to be so, list it as trusted in database %q", name, x.Database)
	case builtin:
		return fmt.Sprintf("somebody made this function of PostgreSQL's own leakproof, so it is shown rows that a policy would then hide, or replaced it; apply can't change it: ALTER FUNCTION %s NOT LEAKPROOF, or restore it from another cluster. If it is meant to be so, list it as trusted in database %q", x.Object, x.Database)
	case "setting":
		return "it is set for all who connect, and decides who they are or what they see; apply resets it"
	}
	what := fmt.Sprintf("the %s reaches %s with the rights of %s", x.Kind, strings.Join(x.Reaches, ", "), x.Rights)
	switch {
	case x.Kind == "parameter":
		what = "what is set by it is a superuser's to set"
	case len(x.Reaches) == 0:
		what = fmt.Sprintf("the %s reaches what nobody can tell from outside, with the rights of %s", x.Kind, x.Rights)
	}
	var who []string
	for _, g := range x.Grants {
		name := g.Role
		if name == Public {
			name = "everybody (PUBLIC)"
		}
		who = append(who, fmt.Sprintf("%s may %s", name, strings.Join(g.Privileges, ", ")))
	}
	return fmt.Sprintf("%s: %s; apply takes these privileges and nothing else. If it is meant to be so, list it as trusted in database %q",
		strings.Join(who, ", "), what, x.Database)
}
