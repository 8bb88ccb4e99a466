package imports

import (
	"go/ast"
	"go/token"
)

// writes adds to names those that a function of the file assigns to, or to a
// part of, or takes the address of, without declaring them anywhere in itself.
func writes(file *ast.File, names map[string]bool) {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		local, written := map[string]bool{}, map[string]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			look(n, local, written)
			return true
		})
		for name := range written {
			if !local[name] {
				names[name] = true
			}
		}
	}
}

func look(n ast.Node, local, written map[string]bool) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for _, e := range n.Lhs {
			if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
				local[id.Name] = true
				continue
			}
			written[root(e)] = true
		}
	case *ast.RangeStmt:
		for _, e := range []ast.Expr{n.Key, n.Value} {
			if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
				local[id.Name] = true
			} else if e != nil {
				written[root(e)] = true
			}
		}
	case *ast.IncDecStmt:
		written[root(n.X)] = true
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			written[root(n.X)] = true
		}
	case *ast.ValueSpec:
		for _, id := range n.Names {
			local[id.Name] = true
		}
	case *ast.Field:
		for _, id := range n.Names {
			local[id.Name] = true
		}
	}
}

// root is the name at the start of x, x[i], x.f, *x, (x) and what they are
// combined to; "" where there is none.
func root(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x.Name
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return ""
		}
	}
}
