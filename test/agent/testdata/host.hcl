secret "anthropic" { file = "/etc/cordon/secrets/anthropic" }
secret "gitea" { file = "/etc/cordon/secrets/gitea" }

proxy "llm" {
  port     = 3000
  upstream = "http://127.0.0.1:38123"
  inject   = { x-api-key = secret.anthropic }
  paths    = ["/v1/messages", "/v1/messages/count_tokens", "/v1/models"]
}

network "llm-only" {
  pool     = "10.202.0.0/16"
  allow    = [proxy.llm]
  fallback = "refuse"
  warm     = 2
}

environment "safe" { allow = ["PATH", "HOME", "TERM", "LANG", "ANTHROPIC_*"] }

# Nothing holds the client here.
environment "plain" {
  allow = ["PATH", "HOME", "TERM", "LANG"]
  set   = { ANTHROPIC_BASE_URL = "http://proxy.internal:3000", ANTHROPIC_AUTH_TOKEN = "none" }
}

seccomp "agent" {
  base = "container"
  deny = ["ptrace", "process_vm_readv", "process_vm_writev", "keyctl", "add_key", "io_uring_setup", "userfaultfd", "perf_event_open"]
}

sandbox "base" {
  abstract    = true
  network     = network.llm-only
  environment = environment.safe
  seccomp     = seccomp.agent

  filesystem {
    programs = [
      "/opt/claude/claude", "/bin/bash", "/usr/bin/env", "/usr/bin/cat", "/usr/bin/grep", "/usr/bin/id", "/usr/bin/sleep",
      "/usr/bin/touch", "/usr/bin/socat", "/usr/bin/head", "/usr/bin/find", "/usr/bin/bwrap", "/bin/sh", "/usr/bin/git", "/usr/lib/git-core/git-remote-http",
    ]
    files = ["/etc/ssl/certs/ca-certificates.crt"]
    tmpfs "/tmp" { size = "256MiB" }

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
}

sandbox "claude-code" {
  extends = sandbox.base
  command = ["claude"]

  agent "claude-code" {
    proxy      = proxy.llm
    hide       = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"]
    transcript = "~/.claude/projects"
    home       = "project"
  }
}

sandbox "passing" {
  extends = sandbox.base
  agent "claude-code" { proxy = proxy.llm }
}

sandbox "plain" {
  extends     = sandbox.base
  environment = environment.plain
}

project "shop" {
  directory = "/srv/projects/shop"
  user      = "shop"
  sandboxes = [sandbox.claude-code, sandbox.passing]
}

project "alpha" {
  directory = "/srv/projects/alpha"
  user      = "alpha"
  sandboxes = [sandbox.claude-code, sandbox.plain]
}

project "beta" {
  directory = "/srv/projects/beta"
  user      = "beta"
  sandboxes = [sandbox.claude-code]

  git {
    remote     = "https://gitea.internal/acme/beta.git"
    credential = secret.gitea
    push       = ["refs/heads/agent/*"]
  }
}
