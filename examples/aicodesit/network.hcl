proxy "llm" {
  port     = 3000
  upstream = "https://api.anthropic.com"
  inject   = { x-api-key = secret.anthropic }
  paths    = ["/v1/messages", "/v1/messages/count_tokens", "/v1/models"]

  token {
    prefix = "cc-sess-"
    ttl    = "4h" # even if the session never says goodbye
  }

  limit {
    requests_per_minute = 120
    concurrent          = 8
    body                = "32MiB"
  }
}

network "llm-only" {
  pool     = "10.202.0.0/16" # a /30 and a veth pair for each session
  allow    = [proxy.llm]     # the only thing reachable: no default route
  fallback = "isolated"      # no namespace to be had: no network at all ("refuse": no session)
  warm     = 4
}

network "packages" {
  pool   = "10.203.0.0/16"
  egress = "internet"                       # NAT; the host, its neighbours and other sessions stay out of reach
  deny   = ["10.0.0.0/8", "169.254.0.0/16"] # on top of the private ranges, which are denied anyway
}

network "dev" {
  pool    = "10.204.0.0/16"
  publish = true # the project's port on the host's loopback leads in; nothing leads out
}
