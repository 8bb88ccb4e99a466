package hcl

import (
	"errors"
	"fmt"
	"math/big"
	"net/netip"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// functions are those that expressions may call, under the names that users
// of HCL tools know. All depend on their arguments only.
func functions() map[string]function.Function {
	return map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "floor": stdlib.FloorFunc, "log": stdlib.LogFunc,
		"max": stdlib.MaxFunc, "min": stdlib.MinFunc, "parseint": stdlib.ParseIntFunc, "pow": stdlib.PowFunc,
		"signum": stdlib.SignumFunc,

		"chomp": stdlib.ChompFunc, "format": stdlib.FormatFunc, "formatlist": stdlib.FormatListFunc,
		"indent": stdlib.IndentFunc, "join": stdlib.JoinFunc, "lower": stdlib.LowerFunc, "regex": stdlib.RegexFunc,
		"regexall": stdlib.RegexAllFunc, "regexreplace": stdlib.RegexReplaceFunc, "replace": stdlib.ReplaceFunc,
		"split": stdlib.SplitFunc, "strlen": stdlib.StrlenFunc, "strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc,
		"title": stdlib.TitleFunc, "trim": stdlib.TrimFunc, "trimprefix": stdlib.TrimPrefixFunc,
		"trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc, "upper": stdlib.UpperFunc,

		"chunklist": stdlib.ChunklistFunc, "coalesce": coalesce(), "coalescelist": stdlib.CoalesceListFunc,
		"compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc,
		"distinct": distinct(), "element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc,
		"index": stdlib.IndexFunc, "keys": stdlib.KeysFunc, "length": stdlib.LengthFunc, "lookup": stdlib.LookupFunc,
		"merge": stdlib.MergeFunc, "range": stdlib.RangeFunc, "reverse": stdlib.ReverseListFunc,
		"setintersection": stdlib.SetIntersectionFunc, "setproduct": stdlib.SetProductFunc,
		"setsubtract": stdlib.SetSubtractFunc, "setunion": stdlib.SetUnionFunc, "slice": stdlib.SliceFunc,
		"sort": stdlib.SortFunc, "values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,

		"csvdecode": stdlib.CSVDecodeFunc, "jsondecode": stdlib.JSONDecodeFunc, "jsonencode": stdlib.JSONEncodeFunc,

		"tobool": stdlib.MakeToFunc(cty.Bool), "tonumber": stdlib.MakeToFunc(cty.Number),
		"tostring": stdlib.MakeToFunc(cty.String), "tolist": stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
		"tomap": stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)), "toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),

		"can": tryfunc.CanFunc, "try": tryfunc.TryFunc,

		"cidrhost": cidrHost(), "cidrnetmask": cidrNetmask(), "cidrsubnet": cidrSubnet(),
	}
}

// coalesce is coalesce(values…): the first that is neither null nor the empty
// string. cty's own stops at the empty string, which users of HCL tools don't
// expect.
func coalesce() function.Function {
	return function.New(&function.Spec{
		VarParam: &function.Parameter{Name: "values", Type: cty.DynamicPseudoType, AllowNull: true, AllowDynamicType: true},
		Type:     stdlib.CoalesceFunc.ReturnTypeForValues,
		Impl: func(args []cty.Value, want cty.Type) (cty.Value, error) {
			for i, v := range args {
				if v.IsNull() || v.Type() == cty.String && v.AsString() == "" {
					continue
				}
				got, err := convert.Convert(v, want)
				if err != nil {
					return cty.NilVal, function.NewArgError(i, err)
				}
				return got, nil
			}
			return cty.NilVal, errors.New("all values are null or empty")
		},
	})
}

func stringParam(name string) function.Parameter {
	return function.Parameter{Name: name, Type: cty.String}
}

func numberParam(name string) function.Parameter {
	return function.Parameter{Name: name, Type: cty.Number}
}

// cidrHost is cidrhost(prefix, number): an address in a network. Negative
// numbers count from its end.
func cidrHost() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{stringParam("prefix"), numberParam("hostnum")},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			p, err := prefixArg(args[0], 0)
			if err != nil {
				return cty.NilVal, err
			}
			n, err := intArg(args[1], 1)
			if err != nil {
				return cty.NilVal, err
			}
			room := new(big.Int).Lsh(big.NewInt(1), uint(p.Addr().BitLen()-p.Bits()))
			if n.Sign() < 0 {
				n = new(big.Int).Add(n, room)
			}
			if n.Sign() < 0 || n.Cmp(room) >= 0 {
				return cty.NilVal, function.NewArgErrorf(1, "%s has %s addresses", p, room)
			}
			return cty.StringVal(addrPlus(p.Addr(), n).String()), nil
		},
	})
}

// cidrNetmask is cidrnetmask(prefix): the mask of an IPv4 network, dotted.
func cidrNetmask() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{stringParam("prefix")},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			p, err := prefixArg(args[0], 0)
			if err != nil {
				return cty.NilVal, err
			}
			if !p.Addr().Is4() {
				return cty.NilVal, function.NewArgErrorf(0, "only IPv4 networks have a mask in this form")
			}
			ones := netip.AddrFrom4([4]byte{255, 255, 255, 255})
			return cty.StringVal(netip.PrefixFrom(ones, p.Bits()).Masked().Addr().String()), nil
		},
	})
}

// cidrSubnet is cidrsubnet(prefix, newbits, number): the number-th of the
// networks that are newbits longer.
func cidrSubnet() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{stringParam("prefix"), numberParam("newbits"), numberParam("netnum")},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			p, err := prefixArg(args[0], 0)
			if err != nil {
				return cty.NilVal, err
			}
			newBits, err := intArg(args[1], 1)
			if err != nil {
				return cty.NilVal, err
			}
			n, err := intArg(args[2], 2)
			if err != nil {
				return cty.NilVal, err
			}
			free := p.Addr().BitLen() - p.Bits()
			if newBits.Sign() < 0 || newBits.Cmp(big.NewInt(int64(free))) > 0 {
				return cty.NilVal, function.NewArgErrorf(1, "%s can be made longer by 0 to %d bits", p, free)
			}
			added := uint(newBits.Uint64())
			if n.Sign() < 0 || n.BitLen() > int(added) {
				return cty.NilVal, function.NewArgErrorf(2, "%d more bits number networks from 0 to %s", added, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), added), big.NewInt(1)))
			}
			first := addrPlus(p.Addr(), new(big.Int).Lsh(n, uint(free)-added))
			return cty.StringVal(netip.PrefixFrom(first, p.Bits()+int(added)).String()), nil
		},
	})
}

func prefixArg(v cty.Value, index int) (netip.Prefix, error) {
	p, err := parsePrefix(v.AsString())
	if err != nil {
		return p, function.NewArgError(index, err)
	}
	return p, nil
}

func intArg(v cty.Value, index int) (*big.Int, error) {
	f := v.AsBigFloat()
	if !f.IsInt() || f.MantExp(nil) > 256 {
		return nil, function.NewArgErrorf(index, "a whole number is required")
	}
	n, _ := f.Int(nil)
	return n, nil
}

// addrPlus adds n, which must stay within the address's length.
func addrPlus(a netip.Addr, n *big.Int) netip.Addr {
	sum := new(big.Int).Add(new(big.Int).SetBytes(a.AsSlice()), n)
	raw := make([]byte, a.BitLen()/8)
	sum.FillBytes(raw)
	out, _ := netip.AddrFromSlice(raw)
	return out
}

// asText is a string, number or boolean as text; ok is false for all else.
func asText(v cty.Value) (text string, ok bool) {
	if v.IsNull() || !v.Type().IsPrimitiveType() {
		return "", false
	}
	s, err := convert.Convert(v, cty.String)
	if err != nil {
		return "", false
	}
	return s.AsString(), true
}

// valueOf converts v to a type constraint; the error names no value.
func valueOf(v cty.Value, want cty.Type) (cty.Value, error) {
	got, err := convert.Convert(v, want)
	if err != nil {
		return cty.DynamicVal, fmt.Errorf("%s is required; this is %s", want.FriendlyNameForConstraint(), typeName(v))
	}
	return got, nil
}
