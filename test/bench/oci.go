package main

import (
	"encoding/json"
	"os"
)

// ociConfig is a runtime configuration (OCI runtime-spec 1.0, config.md) with
// the same limits and namespaces as the sandbox of the benches.
func ociConfig(paths []string) string {
	type obj = map[string]any
	mounts := []obj{
		{"destination": "/proc", "type": "proc", "source": "proc"},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755", "size=64k"}},
		{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": []string{"size=256m"}},
	}
	for _, p := range paths {
		mounts = append(mounts, obj{"destination": p, "type": "bind", "source": p, "options": []string{"bind", "ro"}})
	}
	config := obj{
		"ociVersion": "1.0.2",
		"process": obj{
			"user": obj{"uid": 47101, "gid": 47101}, "cwd": "/", "args": []string{"/bin/true"},
			"env": []string{"PATH=/bin"}, "noNewPrivileges": true,
			"capabilities": obj{},
		},
		"root":   obj{"path": "rootfs", "readonly": true},
		"mounts": mounts,
		"linux": obj{
			"cgroupsPath": "/" + os.Getenv("CORDON_CGROUP_PARENT") + "-runc/bench",
			"resources": obj{
				"memory": obj{"limit": 512 << 20},
				"cpu":    obj{"quota": 80000, "period": 100000},
				"pids":   obj{"limit": 64},
			},
			"namespaces": []obj{{"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}, {"type": "cgroup"}},
		},
	}
	b, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		panic(err) // only strings and numbers
	}
	return string(b)
}
