# Locals, variables, functions.
variable "no-value" {} # ERROR: variable "no-value" has no value. Give it a default, or a value with --var no-value=…

variable "number" {
  type    = number
  default = "x" # ERROR: bad value for variable "number". Number is required; this is a string.
}

variable "type" {
  type    = strin # ERROR: invalid type specification
  default = "x"
}

variable "refers" {
  default = local.a # ERROR: the value of variable "refers" refers to something. Values of variables are constants.
}

variable "1st" {} # ERROR: variable "1st" is not a usable name

variable "ok" {
  default = "x"
  senstive = true # ERROR: unknown attribute "senstive" in variable "ok". Did you mean "sensitive"?
}

locals {
  a = local.b # ERROR: locals that need each other. local.a → local.b → local.c → local.a
  b = [local.c]
  c = "${local.a}"

  self = local.self # ERROR: locals that need each other. local.self → local.self

  depends = local.a # not an error of its own

  typo = local.depend # ERROR: unknown reference local.depend. Did you mean local.depends?
  all  = keys(local)  # ERROR: local without a name. Write local.NAME.

  unknown = tosett([])        # ERROR: unknown function "tosett". Did you mean "toset"?
  file    = file("/etc/passwd") # ERROR: unknown function "file". Functions here depend on their arguments only
  number  = lower(1, 2)       # ERROR: too many function arguments
  subnet  = cidrsubnet("10.0.0.0/8", 30, 0) # ERROR: 10.0.0.0/8 can be made longer by 0 to 24 bits
  subnet2 = cidrsubnet("10.0.0.0/8", 2, 4)  # ERROR: 2 more bits number networks from 0 to 3
  host    = cidrhost("10.0.0.0/24", 256)    # ERROR: 10.0.0.0/24 has 256 addresses
  mask    = cidrnetmask("2001:db8::/32")    # ERROR: only IPv4 networks have a mask in this form
  session = session.id        # ERROR: session.id is not known here. It is known only when a session starts.
}

network "a" {
  pool = local.typo # known to be wrong: no second error
}

network "b" {
  pool = var.refers
}

sandbox "a" {
  command = concat(["a"], [session.id]) # ERROR: session.id is not known here
  network = session.network             # ERROR: session.network is not known here

  filesystem {
    bind "/a" {
      from = session.project.dir # ERROR: unknown reference session.project.dir.
    }

    bind "/b" {
      from = lower(session.project.directory) # ERROR: session.project.directory is not known here
    }

    bind "/d" {
      from = "/srv/${"$"}${session.id}" # ERROR: A $ can't stand right before a session value
    }

    bind "/c" {
      from = "${session.id == "a" ? "/x" : "/y"}" # ERROR: session.id is not known here
    }
  }
}

project "list" {
  for_each  = ["a"] # ERROR: bad for_each in project "list". A list has an order and may have duplicates; write toset([…]).
  directory = "/srv/list/${each.key}"
}

project "text" {
  for_each  = "a" # ERROR: A map or a set of strings is required; this is a string.
  directory = "/srv/text/${each.key}"
}

project "numbers" {
  for_each  = toset([1]) # ERROR: Its keys must be strings; this is a number.
  directory = "/srv/numbers/${each.key}"
}

project "null" {
  for_each  = null # ERROR: It is null
  directory = "/srv/null/${each.key}"
}

project "each" {
  for_each  = toset(["a", "b"])
  directory = "/srv/each/${each.key}/${each.vlaue}" # ERROR: unknown reference each.vlaue. Did you mean each.value?
}

project "upper" { # ERROR: project "upper-A" is not a usable name.
  for_each  = toset(["A"])
  directory = "/srv/upper/${each.key}"
}
