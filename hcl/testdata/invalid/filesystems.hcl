# Paths and what is mounted on what.
secret "relative" { file = "etc/secret" } # ERROR: "etc/secret" is not an absolute, clean path. A path from the root is required: write "/etc/secret".

seccomp "both" {
  deny  = ["ptrace"]
  allow = ["ptrace", "keyctl"] # ERROR: ptrace is both denied and allowed in seccomp "both"
}

seccomp "logged" {
  deny = ["ptrace", "seccomp"] # ERROR: seccomp "logged" has log = true and denies seccomp. A session that logs what is refused begins with this call.
  log  = true
}

seccomp "silent" { deny = ["seccomp"] }

sandbox "a" {
  command    = []      # ERROR: sandbox "a" has an empty command
  namespaces = ["ipc"] # ERROR: sandbox "a" has no pid namespace. Sessions need it to be killed as a whole: list "pid".

  filesystem {
    programs = ["bash", "/usr//bin/env"] # ERROR: "bash" is not an absolute, clean path # ERROR: "/usr//bin/env" is not an absolute, clean path. Write it in its shortest form: "/usr/bin/env".
    files    = ["/etc/../etc/passwd", "/proc/version", "/"] # ERROR: Write it in its shortest form: "/etc/passwd". # ERROR: file onto "/proc/version", which is reserved # ERROR: file is the root of the host

    tmpfs "tmp" {} # ERROR: tmpfs onto "tmp", which is not an absolute, clean path. A path from the root is required: write "/tmp".
    tmpfs "/" {} # ERROR: tmpfs onto the root
    tmpfs "/dev/shm" {} # ERROR: tmpfs onto "/dev/shm", which is reserved. A session has a /dev of its own.

    bind "/lib64/x" { from = "/srv/x" } # ERROR: bind onto "/lib64/x", which lies under a symbolic link. /lib64 leads to /usr/lib64. Write "/usr/lib64/x".
    bind "/sys" { from = "/srv/x" } # ERROR: bind onto "/sys", which is reserved
    bind "/c" { from = "srv/x" } # ERROR: "srv/x" is not an absolute, clean path
    bind "/d" { from = "${session.project.directory}/../x" } # ERROR: Begin with / or ${session.project.directory}
    bind "/e" { from = "${session.project.name}/x" } # ERROR: Begin with / or ${session.project.directory}
    bind "/f" { from = "/" } # ERROR: bind "/f" shows the whole host
    bind "/g" { from = "/proc/1" } # ERROR: bind "/g" shows the host's /proc
    bind "/h" { from = "/srv/h/" } # ERROR: Write it in its shortest form: "/srv/h".
  }
}

sandbox "b" {
  filesystem {
    programs = ["/work/tool"]         # ERROR: program "/work/tool" is covered by bind "/work" in sandbox "b"
    files    = ["/etc/x", "/tmp/file"] # ERROR: file "/tmp/file" is covered by tmpfs "/tmp" in sandbox "b"

    bind "/work" {
      from     = session.project.directory
      writable = true
    }

    bind "/work/node_modules" { from = "/srv/modules" } # ERROR: bind onto "/work/node_modules", beneath the writable bind "/work". A session could leave a symbolic link there
    tmpfs "/work/tmp" {} # ERROR: tmpfs onto "/work/tmp", beneath the writable bind "/work"
    tmpfs "/tmp" {}
    bind "/tmp" { from = "/srv/tmp" } # ERROR: two mounts on "/tmp" in sandbox "b"
    bind "/etc/x/y" { from = "/srv/y" } # ERROR: bind onto "/etc/x/y", inside of file "/etc/x"

    bind "/ro" { from = "/srv/ro" }
    bind "/ro/below" { from = "/srv/below" }
    bind "/tmp2" { from = "/srv/tmp2" }
  }
}

proxy "llm" {
  port     = 3000
  upstream = "https://api.example.com"
}

network "closed" { pool = "10.1.0.0/16" }

sandbox "c" {
  network = network.closed

  agent "claude-code" {
    proxy      = proxy.llm # ERROR: the agent of sandbox "c" can't reach proxy "llm". Network "closed" must allow it: allow = [proxy.llm].
    transcript = "x"       # ERROR: "x" is not an absolute, clean path
  }
}
