# Values of the wrong type or form.
network "a" {
  pool   = "10.202.0.5/16" # ERROR: bad pool in network "a". "10.202.0.5/16" has bits set beyond its prefix; write "10.202.0.0/16".
  warm   = "four"          # ERROR: bad warm in network "a". A number is required; this is a string.
  egress = "wan"           # ERROR: unknown egress "wan" in network "a". There are: "none", "internet".
}

network "b" {
  pool     = "10.203.0.0"  # ERROR: "10.203.0.0" is an address; write "10.203.0.0/32" for it alone.
  warm     = -1            # ERROR: A whole number from 0 to 10000 is required.
  publish  = "yes"         # ERROR: A bool is required; this is a string.
  fallback = "isolate"     # ERROR: unknown fallback "isolate" in network "b". Did you mean "isolated"?
}

network "c" {
  pool = "2001:db8::/64" # ERROR: "2001:db8::/64" is IPv6; slots have IPv4 addresses
  warm = 1.5             # ERROR: A whole number from 0 to 10000 is required.
  deny = ["10.0.0.0/99"] # ERROR: "10.0.0.0/99" is not a network
}

network "d" {
  pool = 5 # ERROR: A string is required; this is a number.
}

proxy "a" {
  port     = 70000                 # ERROR: A whole number from 1 to 65535 is required.
  upstream = "https://u:p@example" # ERROR: A user or password in it would be shown
  inject   = "x"                   # ERROR: A map is required
  paths    = ["v1"]                # ERROR: "v1" is not

  token { ttl = "4 hours" } # ERROR: bad ttl in token in proxy "a". "4 hours" is not a duration; write it like "10s", "15m" or "4h".

  limit { body = "32Mb" } # ERROR: The unit "Mb" is none of KiB, MiB, GiB, TiB, KB, MB, GB, TB, B. Did you mean "32MB"?
}

proxy "b" {
  port     = 3000
  upstream = "example.com" # ERROR: "example.com" is not the address of a server

  token { ttl = "-1h" } # ERROR: "-1h" is not more than nothing.

  limit { concurrent = 0 } # ERROR: A whole number from 1 to 4194304 is required.
}

seccomp "a" {
  base  = "docker"                # ERROR: unknown base "docker" in seccomp "a". The only one there is: "container".
  deny  = ["ptrase", "keyctl", 1] # ERROR: unknown system call "ptrase" in seccomp "a". Did you mean "ptrace"? # ERROR: Each element must be a string
  allow = "ptrace"                # ERROR: A list is required, such as ["ptrace"]; this is a string.
  errno = "EPREM"                 # ERROR: unknown error name "EPREM" in seccomp "a". Did you mean "EPERM"?
  log   = 1                       # ERROR: A bool is required; this is a number.
}

sandbox "a" {
  command     = "bash"           # ERROR: A list is required, such as ["/bin/bash", "-l"]; this is a string.
  namespaces  = ["pid", "mount"] # ERROR: unknown namespace "mount" in sandbox "a". There are: "pid", "ipc", "uts", "cgroup".
  on_change   = "kill"           # ERROR: unknown on_change "kill" in sandbox "a". There are: "keep", "restart".
  stop_signal = "SIGTREM"        # ERROR: unknown stop signal "SIGTREM" in sandbox "a". Did you mean "TERM"? Those that end a session: TERM, INT, HUP, QUIT, USR1, USR2, KILL.
  grace       = 10               # ERROR: A string is required; this is a number.

  capabilities { keep = ["CAP_NET_BIND_SERVCE"] } # ERROR: unknown capability "CAP_NET_BIND_SERVCE" in capabilities in sandbox "a". Did you mean "CAP_NET_BIND_SERVICE"?

  limits {
    memory = "512M" # ERROR: The unit "M" is none of KiB, MiB, GiB, TiB, KB, MB, GB, TB, B. Did you mean "512MiB"?
    cpu    = "80"   # ERROR: "80" has no percent sign; write "100%" for one whole processor.
    pids   = "64"   # ERROR: A number is required; this is a string.
  }

  agent "claude-cod" { # ERROR: unknown agent "claude-cod" in sandbox "a". Did you mean "claude-code"?
    home = "sesion"    # ERROR: unknown home "sesion" in agent "claude-cod" in sandbox "a". Did you mean "session"?
  }

  filesystem {
    programs = { a = 1 } # ERROR: A list is required, such as ["/bin/bash"]; this is a map.
    files    = [null]    # ERROR: Each element must be a string, as in ["/etc/localtime"]; this is null.

    tmpfs "/tmp" { size = "0MiB" } # ERROR: 0 is no bound

    bind "/b" {
      from     = ["/a"] # ERROR: bad from in bind "/b" in filesystem in sandbox "a". Text is required; this is a list.
      writable = "no"   # ERROR: A bool is required; this is a string.
    }
  }
}

sandbox "b" {
  limits {
    memory = 0.5    # ERROR: A whole number from 1 to
    cpu    = "1.5%" # ERROR: "1.5" is not a whole number; write a percentage like "80%".
  }
}

environment "a" {
  allow = ["", "A*B"]   # ERROR: "" is not a name # ERROR: "A*B" is not a name
  set   = { "A=B" = 1 } # ERROR: "A=B" can't be the name of an environment variable.
}

environment "b" {
  set = ["a"] # ERROR: A map is required, such as { NAME = … }; this is a list.
}

environment "c" {
  set = {
    A = {}       # ERROR: bad set in environment "c". Text is required; this is a map.
    B = "\u0000" # ERROR: A NUL can't be part of it.
  }
}

secret "a" {} # ERROR: secret "a" is nowhere to be found

secret "b" { # ERROR: secret "b" is said to be in more than one place
  file = "/b"
  env  = "B"
}

secret "c" {
  file = 5 # ERROR: A string is required that is not empty.
}

secret "d" {
  env = "A=B" # ERROR: "A=B" can't be the name of an environment variable.
}

secret "ok" { env = "OK" }

database "a" {
  connection = "postgres://u:p@h/d" # ERROR: A reference is required, written secret.NAME; this is a string.
}

database "b" {
  connection = secret.ok
  trusted    = ["report"] # ERROR: "report" is not the name of a view or function
}

gateway "a" {
  listen   = "localhost:1" # ERROR: "localhost:1" is not an address with a port; write it like "127.0.0.1:54321".
  database = database.b

  console {
    deny      = ["drop"] # ERROR: unknown class of statements "drop" in console in gateway "a".
    row_limit = 0        # ERROR: A whole number from 1 to 2147483647 is required.
  }
}

project "a" {
  directory = "/srv/a"
  operators = ["shop"] # ERROR: "shop" is not "user:NAME" or "group:NAME".

  git {
    remote = "https://u:p@git.example.com/a.git" # ERROR: A password in the address would be shown; use credential with a secret.
    push   = ["main"] # ERROR: "main" is not the full name of a ref, as refs/heads/main, nor the beginning of such names with a * behind it, as refs/heads/agent/*.
    lfs_hosts = ["https://objects.example.com"] # ERROR: "https://objects.example.com" is not HOST or HOST:PORT.
  }

  schema {
    database = database.b

    table "t" { anonymous = ["read"] } # ERROR: unknown command "read" in table "t" in schema in project "a". There are: "delete", "insert", "select", "update".
  }

  dev_server {
    sandbox = sandbox.b
    command = ["a", {}] # ERROR: Text is required; this is a map.
    user    = "u"
    port    = 0         # ERROR: A whole number from 1 to 65535 is required.
  }
}

project "b" {
  name      = "B c" # ERROR: project "B c" is not a usable name. A project's name is made of a-z, 0-9, _ and -, and begins with a letter or a digit. Did you mean "b-c"?
  directory = "/srv/b"
}

project "c" {
  name      = "" # ERROR: It is empty.
  directory = "/srv/c"
}
