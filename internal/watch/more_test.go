package watch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aicodesit/cordon/internal/kerneltest"
	"github.com/aicodesit/cordon/specs"
)

func TestGroups(t *testing.T) {
	kerneltest.Host(t)
	parent := kerneltest.CgroupParent(t)
	w := watching(t, Groups{parent}, 2*rest)
	mounts, err := hierarchies()
	if err != nil || len(mounts) == 0 {
		kerneltest.Missing(t, "a cgroup hierarchy")
	}
	for _, at := range mounts {
		run := func(script string) func() {
			return doing(t, strings.NewReplacer("GROUP", filepath.Join(at, parent, "0123abcd"), "PARENT", filepath.Join(at, parent)).Replace(script))
		}
		t.Run(at, func(t *testing.T) {
			here := *w
			here.t = t
			list := []step{
				{"the parent is made", cgroup, run(`mkdir PARENT`)},
				{"a group is made", cgroup, run(`mkdir GROUP`)},
				{"reading", "", run(`cat GROUP/cgroup.procs; ls PARENT`)},
				{"others' group", "", run(`mkdir PARENT/other; rmdir PARENT/other`)},
			}
			for _, file := range []string{"memory.max", "memory.limit_in_bytes", "pids.max", "cpu.cfs_quota_us", "cpu.max"} {
				if _, err := os.Stat(filepath.Join(at, file)); err == nil {
					list = append(list, step{"limit " + file, cgroup, run(`echo 100000000 >GROUP/` + file + ` || echo 100000 >GROUP/` + file)})
				}
			}
			here.steps(append(list,
				step{"a group is removed", cgroup, run(`rmdir GROUP`)},
				step{"all of them", cgroup, run(`rmdir PARENT`)},
				step{"and made again", cgroup, run(`mkdir -p GROUP`)},
			))
		})
	}
}

func TestProjects(t *testing.T) {
	kerneltest.Host(t)
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	run := func(script string) func() {
		return doing(t, strings.NewReplacer("A/", a+"/", "B/", b+"/").Replace(script))
	}
	run(`mkdir -p A/.git; touch A/.git/config`)()
	w := watching(t, Projects{[]specs.Project{{Directory: a, Git: &specs.Git{}}, {Directory: b, Git: &specs.Git{}}}}, gitRest+rest)
	w.steps([]step{
		{"work", "", run(`touch A/file; mkdir A/dir; touch A/.git/index; rm A/.git/index; cat A/.git/config`)},
		{"written in place", git, run(`echo x >A/.git/config`)},
		{"as git does", git, run(`echo y >A/.git/config.lock; mv A/.git/config.lock A/.git/config`)},
		{"a redirection", git, run(`echo .. >A/.git/commondir`)},
		{"moved away", git, run(`mv A/.git A/git`)},
		{"a link in its place", git, run(`ln -s git A/.git`)},
		{"what the link leads to", "", run(`echo z >A/git/config`)},
		{"back again", git, run(`rm A/.git; mv A/git A/.git`)},
		{"written once more", git, run(`echo x >A/.git/config`)},
		{"another project comes", git, run(`mkdir -p B/.git`)},
		{"written there", git, run(`echo x >B/.git/config`)},
	})
}
