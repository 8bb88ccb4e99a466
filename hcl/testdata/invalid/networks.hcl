# Rules between networks and their names.
proxy "a" {
  port     = 3000
  upstream = "https://a.example.com"
  inject   = { "x api" = secret.k } # ERROR: "x api" is not the name of a header
}

proxy "b" {
  port     = 3000 # ERROR: port 3000 is taken by proxy "a"
  upstream = "https://b.example.com"
  inject   = { X-Key = secret.k, x-key = secret.k } # ERROR: header x-key is injected twice
}

secret "k" { env = "K" }

network "one" {
  pool = "10.1.0.0/16"
}

network "two" {
  pool  = "10.1.128.0/17" # ERROR: pool 10.1.128.0/17 of network "two" overlaps 10.1.0.0/16 of network "one"
  allow = [proxy.a, proxy.b, proxy.a] # ERROR: network "two" allows proxy "a" twice
}

network "tiny" {
  pool = "10.2.0.0/31" # ERROR: pool 10.2.0.0/31 of network "tiny" is too small. A slot takes a /30
}

network "warm" {
  pool = "10.3.0.0/30"
  warm = 2 # ERROR: pool 10.3.0.0/30 of network "warm" is too small for 2 warm slots. It has 1 slots
}

network "loop" {
  pool = "127.0.0.0/16" # ERROR: pool 127.0.0.0/16 of network "loop" has the host's loopback
}

network "ninebytes" { # ERROR: network name "ninebytes" is too long. Kernel objects are named after it: interface c-ninebytes.9999 has 16 bytes, of at most 15. With this pool the name may have 8 bytes.
  pool = "10.4.0.0/16"
}

network "elevenbytes" {
  pool = "10.5.0.0/30"
}

network "eighteen-bytes-is" { # ERROR: interface c-eighteen-bytes-is.0 has 21 bytes, of at most 15. With this pool the name may have 11 bytes.
  pool = "10.5.1.0/30"
}

network "a-name-of-twenty-five-byt" { # ERROR: chain CORDON-FWD-a-name-of-twenty-five-byt has 36 bytes, of at most 28; set cordon-a-name-of-twenty-five-byt has 32 bytes, of at most 31
  pool = "10.5.2.0/30"
}

network "closed" {
  pool = "10.6.0.0/16"
  deny = ["10.0.0.0/8"] # ERROR: network "closed" denies what it does not open. Without egress = "internet"
}

network "both" {
  pool    = "10.7.0.0/16"
  egress  = "internet"
  publish = true # ERROR: network "both" publishes and has egress
}
