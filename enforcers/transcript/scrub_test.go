package transcript

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aicodesit/cordon/internal/kerneltest"
)

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func scrub(t testing.TB, dir string) Report {
	t.Helper()
	r, err := Scrub(context.Background(), dir, options())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func noLeftovers(t testing.TB, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), stagingPrefix) {
			t.Errorf("left behind: %s", p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWholeTree(t *testing.T) {
	dir := t.TempDir()
	files := []string{"-work/id.jsonl", "-work/id/subagents/agent-1.jsonl", "-work/id/tool-results/a.txt", "-work/.hidden", "top", "-work/no newline at the end.json"}
	for i, f := range files {
		write(t, filepath.Join(dir, f), fmt.Sprintf(`{"n":%d,"t":"%s at 10.202.0.1"}`, i, token))
	}
	write(t, filepath.Join(dir, "clean.jsonl"), "{}\n")
	write(t, filepath.Join(dir, "empty.jsonl"), "")
	r := scrub(t, dir)
	for i, f := range files {
		if got, want := read(t, filepath.Join(dir, f)), fmt.Sprintf(`{"n":%d,"t":"[redacted] at proxy.internal"}`, i); got != want {
			t.Errorf("%s: %s", f, got)
		}
	}
	if r.Files != 8 || r.Changed != 6 || r.Addresses != 6 || r.Secrets != 6 {
		t.Errorf("report: %+v", r)
	}
	if r := scrub(t, dir); r.Changed != 0 || r.Files != 8 {
		t.Errorf("the second time: %+v", r)
	}
	noLeftovers(t, dir)
}

func TestKeepsModeOwnerTimes(t *testing.T) {
	kerneltest.Host(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "a.jsonl")
	write(t, path, `"10.202.0.1"`)
	if err := os.Chown(path, 12345, 23456); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	when := time.Date(2025, 1, 2, 3, 4, 5, 678901234, time.UTC)
	if err := os.Chtimes(path, when, when); err != nil {
		t.Fatal(err)
	}
	scrub(t, dir)
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	if st.Uid != 12345 || st.Gid != 23456 || st.Mode&0o7777 != 0o640 || !time.Unix(st.Mtim.Unix()).Equal(when) {
		t.Errorf("owner %d:%d, mode %o, time %v", st.Uid, st.Gid, st.Mode, time.Unix(st.Mtim.Unix()))
	}
	if got := read(t, path); got != `"proxy.internal"` {
		t.Error(got)
	}
}

// What was not changed is the same file, to who has it open too.
func TestCleanFilesAreNotWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.jsonl")
	write(t, path, `"10.202.0.10"`)
	var before, after unix.Stat_t
	if err := unix.Stat(path, &before); err != nil {
		t.Fatal(err)
	}
	scrub(t, dir)
	if err := unix.Stat(path, &after); err != nil || before.Ino != after.Ino || before.Ctim != after.Ctim {
		t.Errorf("written anew: %v %v (%v)", before, after, err)
	}
}

// leaves runs a Scrub that must leave name, and says so.
func leaves(t *testing.T, dir, name string, o Options) Report {
	t.Helper()
	r, err := Scrub(context.Background(), dir, o)
	if !errors.Is(err, ErrIncomplete) {
		t.Fatalf("error %v, report %+v", err, r)
	}
	if len(r.Left) != 1 || r.Left[0].Path != name {
		t.Errorf("left: %+v", r.Left)
	}
	noLeftovers(t, dir)
	return r
}

func TestLinksAreNotFollowed(t *testing.T) {
	base := t.TempDir()
	dir, outside := filepath.Join(base, "tree"), filepath.Join(base, "outside")
	write(t, outside+"/secret", "10.202.0.1")
	write(t, dir+"/ok", "10.202.0.1")
	for name, to := range map[string]string{"file": outside + "/secret", "dir": outside, "up": "..", "self": ".", "root": "/", "gone": "nowhere", "proc": "/proc/self/fd"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if r := scrub(t, dir); r.Ignored != 7 || r.Files != 1 || r.Changed != 1 {
		t.Errorf("report: %+v", r)
	}
	if err := os.Link(outside+"/secret", dir+"/hard"); err != nil {
		t.Fatal(err)
	}
	leaves(t, dir, "hard", options())
	if got := read(t, outside+"/secret"); got != "10.202.0.1" {
		t.Errorf("outside became %q", got)
	}
	// Nor in the path to the tree, unless whoever asks knows that part.
	link := filepath.Join(base, "link")
	if err := os.Symlink(base, link); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/ok", "10.202.0.1")
	if _, err := Scrub(context.Background(), link+"/tree", options()); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("error: %v", err)
	}
	if err := os.Symlink(outside, base+"/tree2"); err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Base = link
	if _, err := Scrub(context.Background(), link+"/tree2", o); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("error: %v", err)
	}
	if got := read(t, dir+"/ok") + read(t, outside+"/secret"); got != "10.202.0.110.202.0.1" {
		t.Errorf("written through a link: %q", got)
	}
	if r, err := Scrub(context.Background(), link+"/tree", o); !errors.Is(err, ErrIncomplete) || r.Changed != 1 { // the hard link is still there
		t.Errorf("below the base: %+v, %v", r, err)
	}
	for _, path := range []string{"tree", link + "/../x"} {
		if _, err := Scrub(context.Background(), path, o); err == nil {
			t.Errorf("%s was taken", path)
		}
	}
}

func TestSpecialFilesAreNotOpened(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(dir+"/fifo.jsonl", 0o666); err != nil {
		t.Fatal(err)
	}
	l, err := (netListener{}).listen(dir + "/socket.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer l()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := Scrub(ctx, dir, options())
	if err != nil || r.Ignored != 2 || r.Files != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	// Nobody has opened the FIFO: a writer finds no reader.
	if _, err := unix.Open(dir+"/fifo.jsonl", unix.O_WRONLY|unix.O_NONBLOCK, 0); err != unix.ENXIO {
		t.Errorf("the FIFO has a reader: %v", err)
	}
}

func TestDevices(t *testing.T) {
	kerneltest.Host(t)
	dir := t.TempDir()
	if err := unix.Mknod(dir+"/zero", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
		t.Fatal(err)
	}
	if r := scrub(t, dir); r.Ignored != 1 || r.Files != 0 {
		t.Errorf("%+v", r)
	}
}

func TestMountsAreNotEntered(t *testing.T) {
	kerneltest.Host(t)
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/mnt", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir+"/mnt", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir+"/mnt", unix.MNT_DETACH)
	write(t, dir+"/mnt/a", "10.202.0.1")
	r := leaves(t, dir, "mnt", options())
	if r.Left[0].Why != "on another file system" || read(t, dir+"/mnt/a") != "10.202.0.1" {
		t.Errorf("%+v", r)
	}
}

func TestTooLargeAndTooDeep(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a", strings.Repeat("10.202.0.1 ", 100))
	o := options()
	o.MaxFile = 1000
	if r := leaves(t, dir, "a", o); !strings.Contains(r.Left[0].Why, "1100 bytes") {
		t.Errorf("%+v", r.Left)
	}
	o.MaxFile = 1100
	if r, err := Scrub(context.Background(), dir, o); err != nil || r.Addresses != 100 {
		t.Errorf("%+v, %v", r, err)
	}
	deep := dir
	for range maxDirs + 1 {
		deep += "/d"
	}
	write(t, deep+"/a", "10.202.0.1")
	leaves(t, dir, strings.TrimPrefix(deep, dir+"/"), options())
	write(t, filepath.Dir(deep)+"/b", "10.202.0.1")
	leaves(t, dir, strings.TrimPrefix(deep, dir+"/"), options())
	if got := read(t, filepath.Dir(deep)+"/b"); got != defaultName {
		t.Error(got)
	}
}

func TestErrorsAndLogHoldNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a", apiKey+" "+token+" 10.202.0.1")
	if err := os.Link(dir+"/a", dir+"/b"); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	o := options()
	o.Secrets = append(o.Secrets, "tiny")
	o.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r, err := Scrub(context.Background(), dir, o)
	if err == nil || len(r.Left) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, s := range append(o.Secrets, o.Tokens...) {
		if strings.Contains(err.Error()+log.String()+fmt.Sprint(r), s) {
			t.Errorf("%q is in %v, %s or %+v", s, err, log.String(), r)
		}
	}
	if !strings.Contains(log.String(), "too short") {
		t.Errorf("nothing is said about a secret that is not searched for: %s", log.String())
	}
}

func TestRefusedOptions(t *testing.T) {
	for _, o := range []Options{
		{Name: `a"b`},
		{Name: "a b"},
		{Addresses: []netip.Addr{{}}},
		{Prefixes: []string{"x"}},
		{Prefixes: []string{"with space"}},
	} {
		if _, err := Scrub(context.Background(), "/nowhere", o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	if r, err := Scrub(context.Background(), t.TempDir()+"/none", options()); err != nil || r.Files != 0 {
		t.Errorf("nothing to scrub: %+v, %v", r, err)
	}
}

// A huge file, one huge line, is scrubbed in bounded memory.
func TestBoundedMemory(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(dir + "/a.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	const size = 200 << 20 // four times what is allowed to be in memory
	_, err = f.WriteString(`{"a":"10.202.0.1 `)
	if err == nil {
		err = f.Truncate(size) // a hole: NUL bytes, which take no disk until they are copied
	}
	if err == nil {
		_, err = f.WriteAt([]byte(`10.202.0.2"}`), size)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	self(t, nil, "limited", dir)
	out, err := os.Open(dir + "/a.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	head, tail := make([]byte, 21), make([]byte, 16)
	if _, err := out.ReadAt(head, 0); err != nil || string(head) != `{"a":"proxy.internal ` {
		t.Errorf("%q %v", head, err)
	}
	if _, err := out.ReadAt(tail, size+4); err != nil || string(tail) != `proxy.internal"}` {
		t.Errorf("%q %v", tail, err)
	}
}

// The same where everything is found, or looks like it: what is remembered of
// a block is bounded by the block.
func TestBoundedMemoryOfHostileText(t *testing.T) {
	dir := t.TempDir()
	for i, text := range []string{"10.202.0.1 ", `\u0031%31`, "cc-sess-", `{"signature":"10.202.0.1"},`, "[", `\`, "10.202.0.10 "} {
		write(t, fmt.Sprintf("%s/%d.jsonl", dir, i), "["+strings.Repeat(text, (12<<20)/len(text)))
	}
	self(t, nil, "hostile", dir)
}

// self runs this test binary as another process that does as helper says.
func self(t *testing.T, started func(*exec.Cmd), helper, dir string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestHelper$", "-test.v")
	cmd.Env = append(os.Environ(), "TRANSCRIPT_HELPER="+helper, "TRANSCRIPT_DIR="+dir, "GOMEMLIMIT=off", "GOGC=100")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if started != nil {
		started(cmd)
	}
	err := cmd.Wait()
	if started == nil && err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	t.Log(out.String())
}

func TestHelper(t *testing.T) {
	dir := os.Getenv("TRANSCRIPT_DIR")
	switch os.Getenv("TRANSCRIPT_HELPER") {
	case "limited", "hostile":
		limit := 48 << 10
		if os.Getenv("TRANSCRIPT_HELPER") == "hostile" {
			limit = 192 << 10
		}
		scrub(t, dir)
		// Not rusage's, which starts with what the parent had.
		_, peak, _ := strings.Cut(read(t, "/proc/self/status"), "VmHWM:")
		var kib int
		if _, err := fmt.Sscan(peak, &kib); err != nil {
			t.Fatal(err)
		}
		if kib > limit {
			t.Errorf("%d KiB were in memory at once", kib)
		}
		t.Logf("%d KiB", kib)
	case "scrub":
		scrub(t, dir)
	}
}

// Killed at any time, a run leaves every file whole, as it was or as it is to
// be; the next one completes it and cleans up.
func TestKilled(t *testing.T) {
	for i := range 6 {
		dir := t.TempDir()
		line := `{"t":"at 10.202.0.1"}` + "\n"
		const files = 20
		before := strings.Repeat(line, 20_000)
		after := strings.ReplaceAll(before, "10.202.0.1", defaultName)
		for n := range files {
			write(t, fmt.Sprintf("%s/%02d.jsonl", dir, n), before)
		}
		self(t, func(cmd *exec.Cmd) {
			// Killed when the copy of the first file, or of a later one, is there.
			deadline := time.Now().Add(time.Minute)
			for seen := 0; seen <= i*i && time.Now().Before(deadline); seen++ {
				if left, _ := filepath.Glob(dir + "/" + stagingPrefix + "*/*"); len(left) == 0 && seen == 0 {
					seen--
				}
			}
			_ = cmd.Process.Signal(syscall.SIGKILL)
		}, "scrub", dir)
		for n := range files {
			if got := read(t, fmt.Sprintf("%s/%02d.jsonl", dir, n)); got != before && got != after {
				t.Fatalf("run %d: file %d is half done: %d bytes", i, n, len(got))
			}
		}
		scrub(t, dir)
		for n := range files {
			if got := read(t, fmt.Sprintf("%s/%02d.jsonl", dir, n)); got != after {
				t.Fatalf("run %d: file %d is not scrubbed", i, n)
			}
		}
		noLeftovers(t, dir)
	}
}
