# A file with a syntax error: that is told, and what follows from it is not.
network "a" {
  pool = "10.1.0.0/16"
  warm = = 3 # ERROR: invalid expression
}

secret "s" { file = "/x" }
