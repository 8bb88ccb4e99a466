# Upstreams, budgets and prices of proxies.
proxy "a" {
  port     = 3000
  upstream = "http://api.example.com" # ERROR: Over http whoever is between could read and change what is sent; write https.
}

proxy "b" {
  port     = 3001
  upstream = "http://127.0.0.1:8080" # the host itself: nobody is between
}

proxy "c" { # ERROR: proxy "c" lacks upstream
  port = 3002
}

proxy "d" {
  port = 3003

  upstream "one" { # ERROR: upstream "one" in proxy "d" lacks region
    kind = "bedrock"
    url  = "https://bedrock.example.com"
  }

  upstream "two" {
    url    = "https://two.example.com"
    region = "eu" # ERROR: upstream "two" in proxy "d" has a region
  }

  budget { # ERROR: budget in proxy "d" bounds nothing
    scope = "session"
  }

  budget {
    scope = "nobody" # ERROR: unknown scope "nobody"
    money = -1       # ERROR: An amount is required such as 2.50
  }

  price "x" { # ERROR: price "x" in proxy "d" lacks output
    input = 3
  }
}
