package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/run"
	"github.com/aicodesit/cordon/specs"
)

// Runner runs git on the host for a project's declared remote.
//
// What the project's sessions can write decides nothing: git runs as the
// project's user in a repository of cordon's own, outside of what any session
// sees, whose objects and refs are the project's and whose configuration is
// not. A session that changes .git/config, hooks or attributes at just the
// right moment changes a file that is not read.
//
// The credential is asked for over a socket that only this git and what it
// starts inherit, when git asks for it, once, and for the declared scheme,
// host and path; it is in no argument, environment, file or error. Redirects
// are not followed, other protocols are refused, submodules are left alone.
type Runner struct {
	Dir    string // where the repository of cordon's own is made; only root may be able to write there
	Secret func(name string) (string, error)
	CAFile string // certificates to trust instead of the host's; "" for those
	Stdout io.Writer
	Stderr io.Writer
	Log    *slog.Logger
}

// Run runs one command: fetch, push or ls-remote with the options in
// arguments, or clone, which fetches into the project's directory and checks
// out the remote's branch. Where git names a remote there may be "origin".
// The error is a *run.Error when git fails.
func (r Runner) Run(ctx context.Context, p specs.Project, args ...string) error {
	if err := r.run(ctx, p, args); err != nil {
		return fmt.Errorf("git %s: %w", p.Name, err)
	}
	return nil
}

func (r Runner) run(ctx context.Context, p specs.Project, args []string) error {
	if p.Git == nil {
		return errors.New("the project has no git block")
	}
	argv, err := arguments(args)
	if err != nil {
		return err
	}
	if err := remoteTakes(p.Git); err != nil {
		return err
	}
	who, err := identity(p)
	if err != nil {
		return err
	}
	g, err := openGit(p.Directory)
	if errors.Is(err, unix.ENOENT) && argv[0] == "clone" {
		g, err = initGit(p.Directory)
	}
	if err != nil {
		return err
	}
	defer g.close()
	o, err := r.own(g, p, who)
	if err != nil {
		return err
	}
	defer o.remove()
	if argv[0] == "clone" {
		return r.clone(ctx, o)
	}
	return r.git(ctx, o, r.Stdout, argv...)
}

// remoteTakes tells whether the remote is one that a credential may go to.
func remoteTakes(g *specs.Git) error {
	shown, ok := safeURL(g.Remote)
	if !ok || shown != g.Remote {
		return errors.New("remote: must be an https, http, ssh or scp-like address without a password")
	}
	u, err := url.Parse(g.Remote)
	if g.Credential != "" && (err != nil || u.Scheme != "https") {
		return errors.New("a credential is only sent over https")
	}
	return nil
}

// identity is whom git runs as: the project's user, or the owner of its
// directory; nil without the privilege to be another. Never root unless
// declared.
func identity(p specs.Project) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	var st unix.Stat_t
	if err := unix.Stat(p.Directory, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: p.Directory, Err: err}
	}
	c := &syscall.Credential{Uid: st.Uid, Gid: st.Gid, Groups: []uint32{}}
	if p.User != "" {
		u, err := user.Lookup(p.User)
		if err != nil {
			return nil, err
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(errUID, errGID); err != nil {
			return nil, fmt.Errorf("user %s: %w", p.User, err)
		}
		c.Uid, c.Gid = uint32(uid), uint32(gid)
	}
	if c.Uid == 0 && p.User != "root" {
		return nil, fmt.Errorf("%s belongs to root, and git does not run as root unless the project's user says so", p.Directory)
	}
	return c, nil
}

// git runs one git in the repository of cordon's own.
func (r Runner) git(ctx context.Context, o *own, stdout io.Writer, args ...string) error {
	h, err := newHelper(o.project.Git, r.Secret)
	if err != nil {
		return err
	}
	defer h.close()
	var said tail
	errOut := &redactor{to: io.MultiWriter(&said, orDiscard(r.Stderr)), secrets: h.said}
	out := &redactor{to: orDiscard(stdout), secrets: h.said}
	argv := append([]string{"git"}, args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.Env = o.environment()
	cmd.Stdout, cmd.Stderr = out, errOut
	cmd.ExtraFiles = []*os.File{h.theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: o.who, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		return &run.Error{Argv: argv, Err: err}
	}
	_ = h.theirs.Close()
	go h.serve()
	err = cmd.Wait()
	err = errors.Join(err, out.flush(), errOut.flush(), o.settle())
	if err != nil {
		return errors.Join(&run.Error{Argv: argv, Stderr: said.String(), Err: err}, h.failed(), redirected(said.String()))
	}
	return nil
}

// redirected explains what git says of a redirect, which is its status only;
// nil for anything else. Hosts redirect from the old name of a repository.
func redirected(said string) error {
	for _, status := range []string{"301", "302", "303", "307", "308"} {
		if strings.Contains(said, "The requested URL returned error: "+status) {
			return errors.New("the host sends elsewhere, which is not followed; was the repository renamed?")
		}
	}
	return nil
}

// clone fetches, and checks out the branch that the remote's HEAD names.
// It is for a project that has no branch yet: others have something to lose.
func (r Runner) clone(ctx context.Context, o *own) error {
	var refs strings.Builder
	if err := r.git(ctx, o, &refs, "for-each-ref", "--count=1", "refs/heads"); err != nil {
		return err
	}
	if refs.Len() > 0 {
		return errors.New("the project has branches already: fetch instead")
	}
	if err := r.git(ctx, o, r.Stdout, "fetch", "--tags", "--", remoteName); err != nil {
		return err
	}
	if err := r.git(ctx, o, &refs, "ls-remote", "--symref", "--", remoteName, "HEAD"); err != nil {
		return err
	}
	first, _, _ := strings.Cut(refs.String(), "\n")
	name, _, _ := strings.Cut(first, "\t")
	branch, ok := strings.CutPrefix(name, "ref: refs/heads/")
	if !ok || !plainName().MatchString(branch) || strings.Contains(branch, "..") {
		return nil // an empty repository, or one without a branch to be on
	}
	if err := r.git(ctx, o, r.Stdout, "--work-tree="+o.project.Directory, "checkout", "-q", "--no-recurse-submodules", "-b", branch, "refs/remotes/"+remoteName+"/"+branch); err != nil {
		return err
	}
	return o.theirs.replace("HEAD", "ref: refs/heads/"+branch+"\n")
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// arguments checks what a command is given, and returns it in an order in
// which nothing is taken for an option that is none.
func arguments(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, errors.New("which command? fetch, push, ls-remote or clone")
	}
	switch args[0] {
	case "fetch", "push", "ls-remote":
	case "clone":
		if len(args) > 1 {
			return nil, errors.New("clone: takes no arguments: remote and directory are declared")
		}
		return args, nil
	default:
		return nil, fmt.Errorf("%q is not a command for a remote: fetch, push, ls-remote or clone", args[0])
	}
	options, rest := []string{args[0]}, []string{}
	for i, a := range args[1:] {
		if a == "--" {
			rest = append(rest, args[i+2:]...)
			break
		}
		if !strings.HasPrefix(a, "-") {
			rest = append(rest, a)
			continue
		}
		name, _, _ := strings.Cut(a, "=")
		if !slices.Contains(known(args[0]), name) {
			return nil, fmt.Errorf("%s: option %s is not among those that may be given: %s", args[0], name, strings.Join(known(args[0]), " "))
		}
		options = append(options, a)
	}
	if len(rest) > 0 && rest[0] != remoteName {
		return nil, fmt.Errorf("%s: only the declared remote, %s", args[0], remoteName)
	}
	for _, ref := range rest[min(1, len(rest)):] {
		if strings.Contains(ref, "://") || strings.HasPrefix(ref, "-") {
			return nil, fmt.Errorf("%s: %q is no refspec", args[0], ref)
		}
	}
	return append(append(options, "--", remoteName), rest[min(1, len(rest)):]...), nil
}

// known are a command's options that neither run a program nor name a file or
// another remote.
func known(command string) []string {
	all := []string{"-q", "--quiet", "-v", "--verbose", "--progress", "--no-progress"}
	switch command {
	case "fetch":
		return append(all, "-p", "--prune", "-P", "--prune-tags", "-t", "--tags", "-n", "--no-tags", "-f", "--force", "--depth", "--deepen", "--unshallow", "--shallow-since", "--atomic", "--dry-run", "--porcelain")
	case "push":
		return append(all, "--all", "--tags", "--follow-tags", "--atomic", "-f", "--force", "--force-with-lease", "--force-if-includes", "-d", "--delete", "--prune", "-n", "--dry-run", "--porcelain")
	}
	return []string{"-q", "--quiet", "-h", "--heads", "-t", "--tags", "--refs", "--symref", "--exit-code"}
}
