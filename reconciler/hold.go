package reconciler

// Hold takes changes out of p, those for which hold is true and all that wait
// for one of them, and returns them in the order of the plan.
func (p *Plan) Hold(hold func(Change) bool) (held []Change) {
	g := newGraph(p.Changes)
	out := make([]bool, len(p.Changes))
	var rest []Change
	for i, c := range p.Changes { // what c waits for comes before it
		out[i] = hold(c)
		for _, j := range g.after[i] {
			out[i] = out[i] || out[j]
		}
		if out[i] {
			held = append(held, c)
		} else {
			rest = append(rest, c)
		}
	}
	p.Changes = rest
	return held
}

// IsEphemeral tells whether c is about what comes and goes with sessions.
func (c Change) IsEphemeral() bool {
	if c.After != nil {
		return ephemeral(c.After)
	}
	return ephemeral(c.Before)
}
