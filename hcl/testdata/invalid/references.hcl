# References to what does not exist, or is of another kind.
secret "gitea" { file = "/etc/gitea" }

proxy "llm" {
  port     = 3000
  upstream = "https://api.example.com"
  inject   = { x-api-key = secret.gitae } # ERROR: unknown reference secret.gitae. Did you mean secret.gitea?
}

network "llm-only" {
  pool  = "10.202.0.0/16"
  allow = [proxy.lmm] # ERROR: unknown reference proxy.lmm. Did you mean proxy.llm?
}

network "b" {
  pool   = "10.203.0.0/16"
  allow  = [network.llm-only] # ERROR: bad allow in network "b". A proxy is required; this is network.llm-only.
  egress = internet           # ERROR: unknown reference "internet". Text stands in quotes: "internet".
}

network "c" {
  pool  = "10.204.0.0/16"
  allow = proxy.llm # ERROR: bad allow in network "c". A list is required, such as [proxy.NAME]; this is a reference to proxy.llm.
}

sandbox "a" {
  network     = "llm-only"       # ERROR: A reference is required: write network.llm-only, without quotes.
  environment = environment.safe # ERROR: unknown reference environment.safe. No environment is declared.
  seccomp     = secomp.agent     # ERROR: unknown reference "secomp". Did you mean "seccomp"?
}

sandbox "b" {
  network = network.llm-only.pool # ERROR: network.llm-only.pool can't be looked into
  seccomp = 5                     # ERROR: A reference is required, written seccomp.NAME; this is a number.
}

sandbox "base" {
  abstract = true
}

sandbox "c" {
  network = network     # ERROR: network without a name. Write network.NAME.
  command = [var.shell] # ERROR: unknown reference var.shell. No variable is declared.
}

project "p" {
  directory = "/srv/p"
  user      = project.user                    # ERROR: unknown reference project.user
  sandboxes = [sandbox.base, sandbox.nothing] # ERROR: unknown reference sandbox.nothing. There are: sandbox.a, sandbox.b, sandbox.base, sandbox.c.
}

project "q" {
  directory = "/srv/${each.key}" # ERROR: unknown reference each.key. each.key and each.value exist in a project with for_each.
  sandboxes = [sandbox.base]     # ERROR: sandbox.base is abstract: it is there to be extended.

  git {
    remote     = "https://git.example.com/${project.nam}.git" # ERROR: unknown reference project.nam. Did you mean "name"?
    credential = proxy.llm                                    # ERROR: A secret is required; this is proxy.llm.
  }
}

network "d" {
  pool = project.p # ERROR: unknown reference project.p. Nothing refers to projects.
}
