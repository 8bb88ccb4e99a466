# Every attribute of the language, with a value that is not its default.

variable "domain" {
  type        = string # no effect
  default     = "example.com"
  description = "where the services are" # no effect
  sensitive   = false # no effect
}

locals {
  safe = ["PATH"]
}

secret "file" {
  file = "/etc/cordon/secret"
}

secret "env" {
  env = "SECRET"
}

secret "command" {
  command = ["/usr/bin/pass", "show", "x"]
  ttl     = "1m"
}

secret "systemd" {
  systemd = "credential"
}

secret "vault" {
  vault {
    address   = "https://vault.example.com:8200"
    mount     = "secret"
    path      = "llm/anthropic"
    field     = "key"
    token     = secret.file
    namespace = "ns"
  }
}

environment "safe" {
  allow = local.safe
  set   = { DOMAIN = var.domain }
}

proxy "llm" {
  port     = 3000
  upstream = "https://api.example.com"
  inject   = { x-api-key = secret.file }
  paths    = ["/v1/messages"]

  token {
    prefix = "tok-"
    ttl    = "1h"
  }

  limit {
    requests_per_minute = 1
    concurrent          = 2
    body                = "3MiB"
  }

  upstream "bedrock" {
    kind       = "bedrock"
    url        = "https://bedrock-runtime.eu-central-1.amazonaws.com"
    inject     = { x-other = secret.env }
    paths      = ["POST /model/{model}/invoke"]
    credential = secret.command
    region     = "eu-central-1"
  }

  policy {
    models       = ["claude-*"]
    max_tokens   = 1000
    server_tools = ["web_search"]
    url_sources  = true
    mcp_servers  = true
    files        = true
    batches      = true
  }

  budget {
    scope         = "project"
    every         = "24h"
    requests      = 100
    input_tokens  = 1000
    output_tokens = 2000
    money         = 2.5
  }

  budget {
    scope    = "proxy"
    requests = 1000
  }

  price "claude-*" {
    input            = 3
    output           = 15
    cache_read       = 0.3
    cache_write      = 3.75
    cache_write_long = 6
  }
}

network "n" {
  pool     = "10.202.0.0/16"
  allow    = [proxy.llm]
  egress   = "internet"
  deny     = ["10.0.0.0/8"]
  fallback = "isolated"
  warm     = 4
}

network "dev" {
  pool    = "10.203.0.0/16"
  publish = true
}

seccomp "agent" {
  base  = "container" # no effect
  deny  = ["ptrace"]
  allow = ["keyctl"]
  errno = "ENOSYS"
  log   = true
}

sandbox "base" {
  abstract = true
}

sandbox "s" {
  extends     = sandbox.base # no effect
  command     = ["/bin/bash"]
  network     = network.n
  namespaces  = ["pid"]
  environment = environment.safe
  seccomp     = seccomp.agent
  on_change   = "restart"
  stop_signal = "INT"
  grace       = "3s"

  filesystem {
    programs = ["/bin/bash"]
    files    = ["/etc/localtime"]

    tmpfs "/tmp" {
      size = "1MiB"
    }

    bind "/work" {
      from     = session.project.directory
      writable = true
    }
  }

  capabilities {
    keep = ["CAP_NET_BIND_SERVICE"]
  }

  limits {
    memory = "512MiB"
    cpu    = "80%"
    pids   = 64
  }

  agent "claude-code" {
    proxy      = proxy.llm
    hide       = ["TOKEN"]
    transcript = "~/.claude/projects"
    home       = "project"
  }
}

database "main" {
  connection    = secret.env
  authenticator = "web"
  public        = ["connect"]
  trusted       = ["public.report", "public.login(text, integer)", "setting role"]
  settings      = { statement_timeout = "10s" }
}

gateway "data" {
  listen   = "127.0.0.1:54321"
  database = database.main
  keys     = secret.file

  console {
    deny      = ["copy"]
    timeout   = "10s"
    row_limit = 1000
  }
}

project "shop" {
  for_each  = toset(["a"])
  name      = "shop${each.key}"
  directory = "/srv/projects/shop"
  user      = "shop"
  sandboxes = [sandbox.s]
  operators = ["group:shop"]

  git {
    remote     = "https://git.example.com/shop.git"
    credential = secret.env
    push       = ["refs/heads/agent/*", "refs/tags/v1"]
    lfs_hosts  = ["objects.example.com:8443"]
  }

  schema {
    database     = database.main
    owner_column = "user_id"

    table "orders" {
      anonymous     = ["select"]
      authenticated = ["select"]
      owner_column  = "owner"
      owner_columns = { update = "editor" }
      columns       = { select = ["id", "owner"] }
      check         = "total >= 0"
    }

    table "countries" {
      access = "public"
    }

    function "search" {
      anonymous = true
    }

    function "mine" {
      authenticated = true
    }
  }

  dev_server {
    sandbox = sandbox.s
    command = ["npm"]
    user    = "dev"
    port    = 5173
  }

  preview {
    image     = "nginx"
    directory = "dist"
    port      = 8173
  }
}
