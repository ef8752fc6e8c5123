package formats

import (
	"strings"

	"github.com/gabion-go/gabion/internal/finding"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/grpcconfig"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// grpc is the format that internal/grpcconfig reads. It has a parser of its own: JSON is
// stricter than YAML.
var grpc = foreign.Format{
	Name: "grpc-service-config", Aliases: []string{"grpc"}, Title: "gRPC's service config",
	Source: "https://github.com/grpc/proposal/blob/master/A6-client-retries.md",
	Plain:  true,
	Like: func(_ []byte, documents []*yamlstrict.Tree) bool {
		return len(documents) == 1 && (documents[0].Get("methodConfig") != nil || documents[0].Get("retryThrottling") != nil)
	},
	Read: readGRPC,
}

func readGRPC(f *foreign.File) *foreign.Import {
	c, found := grpcconfig.Parse(f.Name, f.Text, grpcconfig.Options{})
	in := &foreign.Import{}
	for _, wrong := range found {
		in.Wrong = append(in.Wrong, wrong.Finding)
	}
	if c == nil {
		return in
	}
	exact, _ := grpcconfig.Parse(f.Name, f.Text, grpcconfig.Options{Exact: true})
	for i, m := range c.Methods {
		plays := exact.Methods[i].Policy
		in.Routes = append(in.Routes, foreign.Route{
			Dependency: m.Dependency, Title: m.Spoken(), Line: m.Line,
			Policy: m.Policy, Plays: plays, Repeats: repeatsOfGRPC(&plays.GRPC), From: m.From,
		})
	}
	for _, n := range c.Notes {
		in.Remarks = append(in.Remarks, remarkOfGRPC(n))
	}
	in.Stays = c.Rest
	in.Choose = func(name string) (int, bool) { return c.Find(methodPath(name)) }
	return in
}

func remarkOfGRPC(n grpcconfig.Finding) foreign.Remark {
	r := foreign.Remark{Line: n.Line, Col: n.Col, Fate: foreign.Nearly, Text: n.Reason}
	switch n.Kind {
	case grpcconfig.Stays:
		r.Fate = foreign.Elsewhere
	case grpcconfig.Unknown:
		r.Fate = foreign.Unknown
	}
	if key, text, ok := strings.Cut(n.Reason, ": "); ok && !strings.Contains(key, " ") {
		r.Key, r.Text = key, text
	}
	if n.Proposal != "" {
		r.Text += "; " + finding.Printable(n.Proposal)
	}
	return r
}

// methodPath takes a method as people write it: with or without the slash in front, or a
// service alone.
func methodPath(method string) string {
	method = "/" + strings.TrimPrefix(method, "/")
	if strings.Count(method, "/") == 1 {
		method += "/"
	}
	return method
}
