# One multi-tenant host, whole. Each file is its owner's; cordon reads all of
# the directory as one.

variable "domain" {
  type    = string
  default = "internal"
}

locals {
  safe_names = ["PATH", "HOME", "TERM", "LANG", "LC_*", "TZ", "NODE_ENV"]
}
