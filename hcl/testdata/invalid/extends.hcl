# What extends what does not exist, or itself.
sandbox "a" {
  extends = sandbox.b # ERROR: sandboxes that extend each other. sandbox.a → sandbox.b → sandbox.c → sandbox.a
}

sandbox "b" { extends = sandbox.c }
sandbox "c" { extends = sandbox.a }

sandbox "into" { extends = sandbox.a }

sandbox "self" {
  extends = sandbox.self # ERROR: sandboxes that extend each other. sandbox.self → sandbox.self
}

sandbox "typo" {
  extends = sandbox.basse # ERROR: unknown reference sandbox.basse. Did you mean sandbox.base?
}

sandbox "text" {
  extends = "base" # ERROR: A reference is required: write sandbox.base, without quotes.
}

sandbox "base" {
  abstract = true

  filesystem {
    programs = ["bin/sh"] # ERROR: "bin/sh" is not an absolute, clean path

    bind "/work" {
      writable = true
    }
  }

  limits { memory = "lots" } # ERROR: bad memory in limits in sandbox
}

sandbox "child" {
  extends = sandbox.base

  filesystem {
    tmpfs "/work" {}

    bind "/work" { from = session.project.directory } # ERROR: two mounts on "/work" in sandbox "child"
  }
}

project "p" {
  directory = "/srv/p"
  sandboxes = [sandbox.typo, sandbox.a]
}
