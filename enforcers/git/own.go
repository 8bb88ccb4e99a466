package git

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/specs"
)

// own is the repository that git runs in: a directory with links to the
// project's objects and refs, as git's own contrib/workdir makes them, and a
// configuration of cordon's.
type own struct {
	dir     string
	lock    *os.File
	project specs.Project
	theirs  *gitDir
	who     *syscall.Credential
	config  []setting
}

// own makes the repository, for one Run.
func (r Runner) own(g *gitDir, p specs.Project, who *syscall.Credential) (*own, error) {
	if err := os.MkdirAll(r.Dir, 0o711); err != nil {
		return nil, err
	}
	r.sweep()
	dir, err := os.MkdirTemp(r.Dir, ownPrefix)
	if err != nil {
		return nil, err
	}
	o := &own{dir: dir, project: p, theirs: g, who: who}
	if o.lock, err = lockDir(dir); err == nil {
		err = o.fill(r.CAFile)
	}
	if err != nil {
		o.remove()
		return nil, fmt.Errorf("make a repository of cordon's own: %w", err)
	}
	return o, nil
}

const ownPrefix = "git-"

// lockDir marks a directory as in use for as long as the process lives. The
// descriptor is not inherited: git may outlive it by a moment, and needs
// nothing of it then.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

// sweep removes what runs that were killed have left. One that is just being
// made is empty, has no lock yet, and is too young.
func (r Runner) sweep() {
	dirs, _ := filepath.Glob(filepath.Join(r.Dir, ownPrefix+"*"))
	for _, d := range dirs {
		fi, err := os.Lstat(d)
		if err != nil || !fi.IsDir() || time.Since(fi.ModTime()) < youngest {
			continue
		}
		if f, err := lockDir(d); err == nil {
			_ = os.RemoveAll(d)
			_ = f.Close()
		}
	}
}

const youngest = time.Minute

// settle does to the project what git did to a link: it removes the list of
// where history is cut off when history is whole again.
func (o *own) settle() error {
	link := filepath.Join(o.dir, "shallow")
	if _, err := os.Lstat(link); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := unix.Unlinkat(o.theirs.fd, "shallow", 0); err != nil && err != unix.ENOENT {
		return fmt.Errorf("remove .git/shallow: %w", err)
	}
	return os.Symlink(filepath.Join(o.project.Directory, ".git", "shallow"), link)
}

func (o *own) remove() {
	_ = os.RemoveAll(o.dir)
	if o.lock != nil {
		_ = o.lock.Close()
	}
}

func (o *own) fill(caFile string) error {
	linked := filepath.Join(o.project.Directory, ".git")
	// Those that do not exist yet are made through the link, by git.
	for _, name := range []string{"objects", "refs", "packed-refs", "shallow", "logs"} {
		if err := os.Symlink(filepath.Join(linked, name), filepath.Join(o.dir, name)); err != nil {
			return err
		}
	}
	st, err := o.theirs.state(o.project.Name)
	if err != nil {
		return err
	}
	var logs unix.Stat_t
	hasLogs := unix.Fstatat(o.theirs.fd, "logs", &logs, unix.AT_SYMLINK_NOFOLLOW) == nil && logs.Mode&unix.S_IFMT == unix.S_IFDIR
	o.config = append(o.settings(caFile, hasLogs), inherited(st.keep)...)
	if !slices.ContainsFunc(o.config, func(s setting) bool { return s.section == "remote" && s.name == "fetch" }) {
		o.config = append(o.config, allBranches())
	}
	err = errors.Join(
		os.WriteFile(filepath.Join(o.dir, "config"), []byte(format(o.config)), 0o644),
		os.WriteFile(filepath.Join(o.dir, "HEAD"), []byte(o.head()), 0o644),
	)
	if err != nil || o.who == nil {
		return err
	}
	for _, name := range []string{"HEAD", "."} { // the configuration stays root's
		if err := os.Chown(filepath.Join(o.dir, name), int(o.who.Uid), int(o.who.Gid)); err != nil {
			return err
		}
	}
	return nil
}

// head is what the project is on; anything else than a branch counts as main.
func (o *own) head() string {
	const none = "ref: refs/heads/main\n"
	fd, err := openIn(o.theirs.fd, "HEAD", unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return none
	}
	defer unix.Close(fd)
	buf := make([]byte, 256)
	n, err := unix.Read(fd, buf)
	if err != nil || n <= 0 {
		return none
	}
	branch, ok := strings.CutPrefix(strings.TrimSuffix(string(buf[:n]), "\n"), "ref: refs/heads/")
	if !ok || !plainName().MatchString(branch) {
		return none
	}
	return "ref: refs/heads/" + branch + "\n"
}

// inherited are the project's settings that say what its objects and refs are.
func inherited(keep []setting) []setting {
	var out []setting
	for _, s := range keep {
		origin := s.section == "remote" && s.subsection == remoteName && s.name != "url"
		if origin || s.section == "extensions" || s.section == "core" && s.name == "repositoryformatversion" {
			out = append(out, s)
		}
	}
	return out
}

func (o *own) settings(caFile string, logs bool) []setting {
	var out []setting
	set := func(section, sub, name, value string) {
		out = append(out, setting{section: section, subsection: sub, hasSub: sub != "", name: name, value: value})
	}
	remote := o.project.Git.Remote
	scheme := "ssh"
	if u, err := url.Parse(remote); err == nil && u.Scheme != "" && u.Host != "" {
		scheme = u.Scheme
	}
	set("core", "", "bare", "true")
	set("core", "", "hookspath", "/dev/null")
	set("core", "", "fsmonitor", "false")
	set("core", "", "askpass", "/bin/false")
	set("core", "", "sshcommand", "ssh -oBatchMode=yes -oStrictHostKeyChecking=yes -oClearAllForwardings=yes")
	set("core", "", "logallrefupdates", fmt.Sprint(logs))
	set("core", "", "protecthfs", "true")
	set("core", "", "protectntfs", "true")
	set("protocol", "", "allow", "never")
	set("protocol", scheme, "allow", "always")
	set("http", "", "followredirects", "false")
	set("http", "", "sslverify", "true")
	if caFile != "" {
		set("http", "", "sslcainfo", caFile)
	}
	set("credential", "", "helper", "")
	set("credential", "", "usehttppath", "true")
	if o.project.Git.Credential != "" {
		set("credential", remote, "helper", helperCommand)
	}
	set("fetch", "", "recursesubmodules", "false")
	set("fetch", "", "writecommitgraph", "false")
	set("push", "", "recursesubmodules", "no")
	set("push", "", "default", "current")
	set("submodule", "", "recurse", "false")
	set("gc", "", "auto", "0")
	set("maintenance", "", "auto", "false")
	set("advice", "", "detachedhead", "false")
	set("remote", remoteName, "url", remote)
	return out
}

// environment is all that git finds: nothing of cordon's own, which holds
// secrets, and nothing that traces what is sent.
func (o *own) environment() []string {
	u, _ := url.Parse(o.project.Git.Remote)
	protocol := "ssh"
	if u != nil && u.Host != "" {
		protocol = u.Scheme
	}
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "HOME=/nonexistent",
		"GIT_DIR=" + o.dir, "GIT_INDEX_FILE=" + filepath.Join(o.project.Directory, ".git", "index"),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=" + protocol, "GIT_PROTOCOL_FROM_USER=0",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0",
	}
}
