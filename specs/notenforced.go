package specs

// NotEnforced lists, sorted by kind, the addresses of what is declared but
// enforced only by a later build. It is for plans to show: nothing that was
// written is passed over in silence.
func (s Set) NotEnforced() []string {
	var out []string
	for _, g := range s.Gateways {
		out = append(out, "gateway."+g.Name)
	}
	for _, n := range s.Networks {
		if n.Publish {
			out = append(out, "network."+n.Name+".publish")
		}
	}
	for _, p := range s.Projects {
		if p.DevServer != nil {
			out = append(out, "project."+p.Name+".dev_server")
		}
		if p.Preview != nil {
			out = append(out, "project."+p.Name+".preview")
		}
	}
	return out
}
