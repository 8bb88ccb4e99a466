# The smallest useful directory: a shell without any network that sees one
# project's files and nothing else of the host.

sandbox "shell" {
  command = ["/bin/bash"]

  filesystem {
    programs = ["/bin/bash", "/usr/bin/env", "/usr/bin/ls", "/usr/bin/cat"]

    tmpfs "/tmp" {}

    bind "/work" {
      from     = session.project.directory
      writable = true
    }
  }
}

project "demo" {
  directory = "/srv/projects/demo"
  sandboxes = [sandbox.shell]
}
