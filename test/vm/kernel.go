package vm

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// kernel is one that was unpacked below the cache directory.
type kernel struct {
	image   string // its path
	version string // "6.1.0-9-cloud-amd64"
	dir     string // of its modules
}

// findKernel returns the newest kernel that test/deps.sh has left.
func findKernel() (kernel, error) {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return kernel{}, err
		}
		cache = filepath.Join(home, ".cache")
	}
	root := filepath.Join(cache, "cordon-test", "kernel")
	images, err := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
	if err != nil {
		return kernel{}, err
	}
	if len(images) == 0 {
		return kernel{}, errors.New("a kernel in " + root + " (`make deps` fetches it)")
	}
	image := slices.Max(images)
	version := strings.TrimPrefix(filepath.Base(image), "vmlinuz-")
	return kernel{image: image, version: version, dir: filepath.Join(root, "lib", "modules", version)}, nil
}

// modules returns the module files at or below the wanted paths, all that
// they need, and the indexes by which the kernel finds them itself.
func (k kernel) modules(wanted []string) ([]File, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	needs, err := k.needs()
	if err != nil {
		return nil, err
	}
	take := map[string]bool{}
	for _, w := range wanted {
		found := false
		for module, deps := range needs {
			rest, ok := strings.CutPrefix(module, "kernel/"+w)
			if !ok || (rest != ".ko" && !strings.HasPrefix(rest, "/")) {
				continue
			}
			found, take[module] = true, true
			for _, d := range deps {
				take[d] = true
			}
		}
		if !found {
			return nil, fmt.Errorf("kernel %s has no module %s", k.version, w)
		}
	}
	for _, index := range []string{"modules.dep", "modules.alias", "modules.symbols", "modules.builtin"} {
		take[index] = true
	}
	var files []File
	for name := range take {
		files = append(files, File{Path: "/lib/modules/" + k.version + "/" + name, From: filepath.Join(k.dir, name), Mode: 0o644})
	}
	return files, nil
}

// needs reads modules.dep: "module: all it needs", paths below the directory
// of modules (depmod(8)).
func (k kernel) needs() (map[string][]string, error) {
	f, err := os.Open(filepath.Join(k.dir, "modules.dep"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	needs := map[string][]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if module, deps, ok := strings.Cut(lines.Text(), ":"); ok {
			needs[module] = strings.Fields(deps)
		}
	}
	return needs, lines.Err()
}
