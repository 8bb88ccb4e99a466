package transcript

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

type netListener struct{}

func (netListener) listen(path string) (closer func(), err error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	return func() { _ = l.Close() }, nil
}

// halfway runs do when the new form of the file is written and before it takes
// the old one's place; n counts the times.
func halfway(t *testing.T, dir string, do func(n int)) (Report, error) {
	t.Helper()
	tr, err := newTree(options())
	if err != nil {
		t.Fatal(err)
	}
	tr.root, err = openRoot(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(tr.root)
	n := 0
	tr.written = func() { do(n); n++ }
	err = tr.scrub(context.Background())
	noLeftovers(t, dir)
	return tr.report, err
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.WriteString(f, text); err != nil {
		t.Fatal(err)
	}
}

// A client that lives on loses no line, and what it adds is scrubbed too.
func TestAppendedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/a.jsonl"
	write(t, path, `"10.202.0.1"`+"\n")
	r, err := halfway(t, dir, func(int) { appendTo(t, path, `"then 10.202.0.2"`+"\n"+`"clean"`+"\n") })
	if want := `"proxy.internal"` + "\n" + `"then proxy.internal"` + "\n" + `"clean"` + "\n"; err != nil || read(t, path) != want {
		t.Errorf("%v, %+v: %q", err, r, read(t, path))
	}
	write(t, path, `"10.202.0.1"`+"\n")
	if r, err := halfway(t, dir, func(int) { appendTo(t, path, `"clean"`) }); err != nil || read(t, path) != `"proxy.internal"`+"\n"+`"clean"` {
		t.Errorf("%v, %+v: %q", err, r, read(t, path))
	}
}

func TestRewrittenMeanwhile(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/a.jsonl"
	write(t, path, `"10.202.0.1"`)
	_, err := halfway(t, dir, func(n int) {
		if n == 0 {
			write(t, path, `"10.202.0.2 written anew"`)
		}
	})
	if err != nil || read(t, path) != `"proxy.internal written anew"` {
		t.Errorf("%v: %q", err, read(t, path))
	}
	// By rename, as editors do.
	write(t, path, `"10.202.0.1"`)
	_, err = halfway(t, dir, func(n int) {
		if n == 0 {
			write(t, dir+"/other", `"10.202.0.2 moved in"`)
			if err := os.Rename(dir+"/other", path); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil || read(t, path) != `"proxy.internal moved in"` {
		t.Errorf("%v: %q", err, read(t, path))
	}
	// Again and again: it stays as the writer left it, and is reported.
	write(t, path, `"10.202.0.1"`)
	r, err := halfway(t, dir, func(n int) { write(t, path, fmt.Sprintf(`%d "10.202.0.1"`, n)) })
	if err != nil || len(r.Left) != 1 || r.Left[0].Why != errChanged.Error() || !strings.HasSuffix(read(t, path), ` "10.202.0.1"`) {
		t.Errorf("%v, %+v: %q", err, r, read(t, path))
	}
}

func TestSwappedMeanwhile(t *testing.T) {
	base := t.TempDir()
	outside := base + "/outside"
	for name, swap := range map[string]func(path string) error{
		"for a symbolic link": func(path string) error { return os.Symlink(outside, path) },
		"for a hard link":     func(path string) error { return os.Link(outside, path) },
		"for a directory":     func(path string) error { return os.Mkdir(path, 0o755) },
		"for a FIFO":          func(path string) error { return unix.Mkfifo(path, 0o644) },
		"for nothing":         func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := dir + "/a.jsonl"
			write(t, outside, `"10.202.0.1 outside"`)
			write(t, path, `"10.202.0.1"`)
			_, err := halfway(t, dir, func(int) {
				if err := errors.Join(os.Remove(path), swap(path)); err != nil {
					t.Error(err)
				}
			})
			if err != nil {
				t.Error(err)
			}
			if got := read(t, outside); got != `"10.202.0.1 outside"` {
				t.Errorf("outside became %q", got)
			}
			if fi, err := os.Lstat(path); err == nil && fi.Mode().IsRegular() && name != "for a hard link" {
				t.Errorf("what was swapped in became a regular file: %v", fi.Mode())
			}
		})
	}
}

// An agent that swaps files and directories all the time gets nothing outside
// of the tree changed, and nothing of outside into it.
func TestRacingAgent(t *testing.T) {
	base := t.TempDir()
	outside := base + "/outside"
	dir := base + "/tree"
	const kept = `"10.202.0.1 outside"`
	write(t, outside+"/a.jsonl", kept)
	write(t, outside+"/d/a.jsonl", kept)
	write(t, dir+"/d/a.jsonl", `"10.202.0.1"`)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			switch i % 6 {
			case 0:
				_ = os.RemoveAll(dir + "/d")
				_ = os.Symlink(outside, dir+"/d")
			case 1:
				_ = os.Remove(dir + "/d")
				_ = os.Mkdir(dir+"/d", 0o755)
				_ = os.WriteFile(dir+"/d/a.jsonl", []byte(`"10.202.0.1"`), 0o644)
			case 2:
				_ = os.Remove(dir + "/d/a.jsonl")
				_ = os.Symlink(outside+"/a.jsonl", dir+"/d/a.jsonl")
			case 3:
				_ = os.Remove(dir + "/d/a.jsonl")
				_ = os.Link(outside+"/a.jsonl", dir+"/d/a.jsonl")
			case 4:
				staged, _ := filepath.Glob(dir + "/" + stagingPrefix + "*")
				for _, s := range staged {
					_ = os.Rename(s, dir+"/moved")
				}
			case 5:
				_ = os.RemoveAll(dir + "/moved")
			}
		}
	})
	for range 300 {
		// Whatever it says about what it could not do: it must not do wrong.
		_, _ = Scrub(context.Background(), dir, options())
	}
	close(stop)
	wg.Wait()
	for _, f := range []string{"/a.jsonl", "/d/a.jsonl"} {
		if got := read(t, outside+f); got != kept {
			t.Errorf("%s became %q", f, got)
		}
	}
}

// Directories that only look like a staging directory are the agent's: hiding
// something there hides nothing, and nothing in them is removed.
func TestLookalikes(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/"+stagingPrefix+"X/a.jsonl", `"10.202.0.1"`)
	if err := os.Symlink(dir, dir+"/"+stagingPrefix+"Y"); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/sub/"+stagingPrefix+"Z/a.jsonl", `"10.202.0.1"`)
	if err := os.Chmod(dir+"/sub/"+stagingPrefix+"Z", 0o700); err != nil {
		t.Fatal(err)
	}
	scrub(t, dir)
	for _, f := range []string{stagingPrefix + "X", "sub/" + stagingPrefix + "Z"} {
		if got := read(t, dir+"/"+f+"/a.jsonl"); got != `"proxy.internal"` {
			t.Errorf("%s: %q", f, got)
		}
	}
}

// What another run is writing just now is its own.
func TestStagingOfAnotherRun(t *testing.T) {
	dir := t.TempDir()
	staged := dir + "/" + stagingPrefix + "live"
	if err := os.Mkdir(staged, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, staged+"/new", "10.202.0.1")
	f, err := os.Open(staged)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if r := scrub(t, dir); r.Files != 0 || read(t, staged+"/new") != "10.202.0.1" {
		t.Errorf("%+v", r)
	}
	_ = f.Close()
	scrub(t, dir)
	noLeftovers(t, dir)
}

// Two at once, as when two sessions of one project end together.
func TestAtOnce(t *testing.T) {
	dir := t.TempDir()
	for n := range 50 {
		write(t, fmt.Sprintf("%s/%d.jsonl", dir, n), strings.Repeat(`"10.202.0.1"`+"\n", 1000))
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := Scrub(context.Background(), dir, options()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for n := range 50 {
		if got := read(t, fmt.Sprintf("%s/%d.jsonl", dir, n)); got != strings.Repeat(`"proxy.internal"`+"\n", 1000) {
			t.Errorf("%d: %.80q", n, got)
		}
	}
	noLeftovers(t, dir)
}
