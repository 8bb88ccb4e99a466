package broker

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aicodesit/cordon/specs"
)

// db is a user database: ids by name, groups by user.
type db struct {
	users, groups map[string]uint32
	in            map[uint32][]uint32
	broken        bool
	away          bool // knows nobody
}

var errBroken = errors.New("no answer")

func (d db) user(name string) (uint32, error) {
	id, ok := d.users[name]
	switch {
	case d.broken:
		return 0, errBroken
	case !ok || d.away:
		return 0, user.UnknownUserError(name)
	}
	return id, nil
}

func (d db) group(name string) (uint32, error) {
	id, ok := d.groups[name]
	switch {
	case d.broken:
		return 0, errBroken
	case !ok || d.away:
		return 0, user.UnknownGroupError(name)
	}
	return id, nil
}

func (d db) of(uid uint32) (string, []uint32, error) {
	for name, id := range d.users {
		if id == uid && !d.away {
			return name, d.in[uid], nil
		}
	}
	return "", nil, user.UnknownUserIdError(int(uid))
}

func (d db) answers() error {
	if d.away {
		return errBroken
	}
	return nil
}

// A file that is away, or not all there, says nothing of anybody.
func TestKnowsRoot(t *testing.T) {
	must(t, system{}.answers())
	file := filepath.Join(t.TempDir(), "passwd")
	if err := knowsRoot(file); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for content, want := range map[string]bool{
		"": false, "bob:x:1000:0::/:/bin/sh\n": false, "bob:x:1000:1000::/:/bin/sh\nroot:x:0:0:root:/root:/bin/bash\n": true, "root:x:0:\n": true,
	} {
		must(t, os.WriteFile(file, []byte(content), 0o600))
		if err := knowsRoot(file); (err == nil) != want {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestMayRun(t *testing.T) {
	d := db{
		users:  map[string]uint32{"bob": 1000, "eve": 1001},
		groups: map[string]uint32{"shop": 50, "bob": 1000},
		in:     map[uint32][]uint32{1000: {1000, 50}, 1001: {1001}},
	}
	project := func(name string, operators ...string) specs.Project {
		return specs.Project{Name: name, Operators: operators, Sandboxes: []string{"agent", "shell"}}
	}
	set := specs.Set{Projects: []specs.Project{
		project("alone"), project("byname", "user:bob"), project("ghosts", "user:nobody-such", "group:none-such"), project("shop", "group:shop"),
	}}
	bob := peer{uid: 1000, gid: 1000, groups: []uint32{50}}
	for _, c := range []struct {
		what             string
		peer             peer
		project, sandbox string
		root             bool
		refused          string // "": may
	}{
		{"by group", bob, "shop", "agent", false, ""},
		{"by name", bob, "byname", "shell", false, ""},
		{"by the process's own group", peer{uid: 1000, gid: 50}, "shop", "agent", false, ""},
		{"not an operator", peer{uid: 1001, gid: 1001}, "shop", "agent", false, "user eve is not an operator of project shop; its operators are group:shop"},
		{"removed from the group, still logged in", peer{uid: 1001, gid: 1001, groups: []uint32{50}}, "shop", "agent", false, "user eve is not an operator of project shop"},
		{"gave the group up", peer{uid: 1000, gid: 1000}, "shop", "agent", false, "user bob is in group shop, but this process is not"},
		{"unknown to the database", peer{uid: 4711, groups: []uint32{50}}, "shop", "agent", false, "user 4711 is not an operator"},
		{"another sandbox", bob, "shop", "root-shell", false, `project shop has no sandbox "root-shell"; it has agent, shell`},
		{"no operators", bob, "alone", "agent", false, "which has none: only root starts its sessions"},
		{"operators that do not exist", bob, "ghosts", "agent", false, "not an operator of project ghosts"},
		{"no project", bob, "", "agent", false, "say which project with --project"},
		{"no such project", bob, "x\x1b[31m", "agent", false, `project "x\x1b[31m" is not declared`},
		{"root", peer{}, "", "agent", true, ""},
	} {
		who, err := take(d, c.peer)
		must(t, err)
		err = who.mayRun(set, runRequest{c.project, c.sandbox}, c.root)
		if c.refused == "" && err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if c.refused != "" && (!errors.As(err, new(*RefusedError)) || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: %v, want %q", c.what, err, c.refused)
		}
	}
}

// Who can't be looked up may nothing.
func TestBrokenDatabase(t *testing.T) {
	d := db{users: map[string]uint32{"bob": 1000}, broken: true}
	who, err := take(d, peer{uid: 1000})
	must(t, err)
	set := specs.Set{Projects: []specs.Project{{Name: "p", Operators: []string{"user:bob"}, Sandboxes: []string{"s"}}}}
	if err := who.mayRun(set, runRequest{"p", "s"}, false); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	if c, err := who.caller(set, false); err == nil {
		t.Errorf("a caller: %+v", c)
	}
}

func TestCaller(t *testing.T) {
	d := db{users: map[string]uint32{"bob": 1000}}
	who, err := take(d, peer{uid: 1000})
	must(t, err)
	set := specs.Set{Projects: []specs.Project{{Name: "a", Operators: []string{"user:bob"}}, {Name: "b"}}}
	c, err := who.caller(set, false)
	must(t, err)
	if c.By() != "user:bob" || !c.operates("a") || c.operates("b") || c.operates("") {
		t.Errorf("%+v", c)
	}
	if c, _ := who.caller(set, true); !c.operates("b") || !c.operates("") {
		t.Errorf("root: %+v", c)
	}
}

func TestTurnstile(t *testing.T) {
	var s turnstile
	var leave []func()
	for range maxOfUser {
		l, ok := s.enter(7)
		if !ok {
			t.Fatal("too few")
		}
		leave = append(leave, l)
	}
	if _, ok := s.enter(7); ok {
		t.Error("one user too often")
	}
	if _, ok := s.enter(8); !ok {
		t.Error("another user must wait")
	}
	leave[0]()
	leave[0]() // once counts
	if _, ok := s.enter(7); !ok {
		t.Error("who left still counts")
	}
	if _, ok := s.enter(7); ok {
		t.Error("who left once counts twice")
	}
	for uid := uint32(100); s.all < maxOfAll; uid++ {
		if _, ok := s.enter(uid); !ok {
			t.Fatal("too few in all")
		}
	}
	if _, ok := s.enter(9); ok {
		t.Error("too many in all")
	}
	if _, ok := s.enter(0); !ok {
		t.Error("users kept root out")
	}
}

func TestHush(t *testing.T) {
	var h hush
	now := time.Now()
	told := 0
	for range 100 {
		if _, ok := h.tell(7, now); ok {
			told++
		}
	}
	if told != refusalsAtOnce {
		t.Errorf("%d told", told)
	}
	if _, ok := h.tell(8, now); !ok {
		t.Error("another's refusal is not told")
	}
	if n, ok := h.tell(7, now.Add(refusalPause)); !ok || n != 100-refusalsAtOnce {
		t.Errorf("later: %d untold, %v", n, ok)
	}
	for uid := range uint32(3 * maxCulprits) {
		h.tell(uid, now)
	}
	if len(h.of) > maxCulprits {
		t.Errorf("%d users are remembered", len(h.of))
	}
}

// counting is a user database that counts what is looked up.
type counting struct {
	db
	asked *int
}

func (c counting) user(name string) (uint32, error)  { *c.asked++; return c.db.user(name) }
func (c counting) group(name string) (uint32, error) { *c.asked++; return c.db.group(name) }

// Anybody may ask, so a request must not read the user database for each
// project.
func TestLookUpsOfManyProjects(t *testing.T) {
	asked := 0
	d := counting{db{users: map[string]uint32{"bob": 1000}, groups: map[string]uint32{"shop": 50}}, &asked}
	set := specs.Set{}
	for range 1000 {
		set.Projects = append(set.Projects, specs.Project{Name: "p", Operators: []string{"group:shop", "group:none-such", "user:bob"}})
	}
	c, err := take(d, peer{uid: 1000})
	must(t, err)
	caller, err := c.caller(set, false)
	must(t, err)
	if len(caller.Projects) != 1000 || asked != 3 {
		t.Errorf("operator of %d projects by %d look-ups, want 1000 by 3", len(caller.Projects), asked)
	}
}
