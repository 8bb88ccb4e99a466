# Blocks and attributes that don't exist, lack something or stand twice.
netwrok "a" { # ERROR: unknown block "netwrok". Did you mean "network"?
  pool = "10.1.0.0/16"
}

pool = "10.0.0.0/8" # ERROR: attribute "pool" outside of any block. At the top of a file there are blocks only.

network "lan" {
  pol  = "10.1.0.0/16" # ERROR: unknown attribute "pol" in network "lan". Did you mean "pool"?
  pool = "10.1.0.0/16"
}

network "lan" { # ERROR: duplicate network "lan". It is declared at
  pool = "10.9.0.0/16"
}

network "none" {} # ERROR: network "none" lacks pool. The attribute "pool" must be given.

network { # ERROR: network without its name. Write network "NAME" { … }.
  pool = "10.2.0.0/16"
}

network "two" "labels" { # ERROR: network with more than one label
  pool = "10.2.0.0/16"
}

locals "named" {} # ERROR: locals has no name

network "LAN" { # ERROR: network "LAN" is not a usable name. Names are made of a-z, 0-9, _ and -, and begin with a letter. Did you mean "lan"?
  pool = "10.3.0.0/16"
}

proxy "p" { # ERROR: proxy "p" lacks port
  upstream = "https://api.example.com"

  limits {} # ERROR: unknown block "limits" in proxy "p". Did you mean "limit"?

  token {
    ttl  = "1h"
    ttll = "1h" # ERROR: unknown attribute "ttll" in token in proxy "p". Did you mean "ttl"?
  }

  token {} # ERROR: duplicate token in proxy "p". The first is at
}

sandbox "s" {
  limits = { memory = 1 } # ERROR: limits is a block: write limits { … }, without the equals sign.

  command {} # ERROR: command is an attribute: write command = …
  network "lan" {} # ERROR: network is an attribute: write network = …

  filesystem {
    bind "/a" {} # ERROR: bind "/a" in filesystem in sandbox "s" lacks from. Say what of the host is shown there

    tmpfs {} # ERROR: tmpfs without its path. Write tmpfs "PATH" { … }.

    tmpfs "/t" {}
    tmpfs "/t" {} # ERROR: duplicate tmpfs "/t" in filesystem in sandbox "s"
  }
}

variable "v" {
  default = 1
}

variable "v" {} # ERROR: duplicate variable "v"

locals {
  a = 1
}

locals {
  a = 2 # ERROR: duplicate local "a"
  b {}  # ERROR: block inside locals. Locals are values: write b = { … }.
}
