environment "safe" {
  allow = local.safe_names # everything else is stripped
  set   = { npm_config_cache = "/tmp/npm-cache" }
}

seccomp "agent" {
  base = "container" # the allowlist that container engines start from
  deny = ["ptrace", "process_vm_readv", "process_vm_writev", "keyctl", "add_key", "io_uring_setup", "userfaultfd", "perf_event_open"]
}

sandbox "base" {
  abstract   = true
  namespaces = ["pid", "ipc", "uts", "cgroup"]

  filesystem {
    files = ["/etc/ssl/certs/ca-certificates.crt", "/etc/localtime"]
    tmpfs "/tmp" { size = "256MiB" }
  }

  environment = environment.safe
  seccomp     = seccomp.agent

  capabilities { keep = [] } # all others are dropped
}

sandbox "claude-code" {
  extends = sandbox.base
  command = ["claude"]
  network = network.llm-only

  filesystem {
    programs = ["/opt/claude/claude", "/bin/bash", "/usr/bin/env", "/usr/bin/git", "/usr/lib/git-core/git-remote-http", "/usr/bin/rg", "/usr/bin/node"]

    bind "/work" {
      from     = session.project.directory
      writable = true
    }
  }

  limits {
    memory = "512MiB"
    cpu    = "80%"
    pids   = 64
  }

  agent "claude-code" {
    proxy      = proxy.llm                                                           # sets the base URL and the session's token
    hide       = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"] # from the model's own shell tool
    transcript = "~/.claude/projects"                                                # internal addresses become proxy.internal at close
    home       = "project"                                                           # kept per project; "session" discards it
  }

  on_change = "keep"
}

sandbox "terminal" {
  extends = sandbox.base
  command = ["/bin/bash", "-l"]
  network = network.packages

  filesystem {
    programs = ["/bin/bash", "/usr/bin/env", "/usr/bin/git", "/usr/bin/node", "/usr/bin/npm"]

    bind "/work" {
      from     = session.project.directory
      writable = true
    }
  }

  limits {
    memory = "1GiB"
    cpu    = "100%"
    pids   = 256
  }
}

sandbox "dev-server" {
  extends = sandbox.base
  network = network.dev

  filesystem {
    programs = ["/usr/bin/env", "/usr/bin/node", "/usr/bin/npm"]

    bind "/work" {
      from     = session.project.directory
      writable = true
    }
  }

  limits {
    memory = "1GiB"
    cpu    = "100%"
    pids   = 128
  }
}
