package gabionvet

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// networks are packages all of whose calls that can fail go over a network.
var networks = []string{
	"database/sql", "net/rpc", "net/smtp",
	"github.com/jackc/pgx", "github.com/redis/go-redis", "github.com/go-redis/redis", "github.com/gomodule/redigo/redis",
	"github.com/nats-io/nats.go", "github.com/rabbitmq/amqp091-go", "github.com/segmentio/kafka-go", "github.com/twmb/franz-go",
	"github.com/hashicorp/consul/api", "github.com/hashicorp/vault/api", "go.etcd.io/etcd/client",
	"github.com/aws/aws-sdk-go", "github.com/stripe/stripe-go", "go.mongodb.org/mongo-driver", "github.com/go-resty/resty",
	"github.com/hashicorp/go-retryablehttp", "github.com/minio/minio-go", "github.com/google/go-github", "github.com/gabion-go/gabion",
	"k8s.io/client-go/kubernetes", "k8s.io/client-go/rest", "github.com/docker/docker/client", "github.com/eclipse/paho.mqtt.golang",
}

var dials = regexp.MustCompile(`^(Dial|DialContext|DialTimeout|DialTCP|DialUDP|Lookup.*|Do|RoundTrip|Get|Head|Post|PostForm|Handshake|HandshakeContext|DialTLS|Invoke|NewStream|DialWithDialer)$`)

// leaves reports whether a call by itself goes over a network, as far as its name says.
func (u *unit) leaves(call *ast.CallExpr) bool {
	f := u.callee(call)
	if f == nil || f.Pkg() == nil {
		return false
	}
	sig, ok := f.Type().(*types.Signature)
	if !ok || !canFail(sig) {
		return false
	}
	path := unversioned(f.Pkg().Path())
	switch path {
	case "net", "net/http", "crypto/tls", "google.golang.org/grpc":
		return dials.MatchString(f.Name())
	}
	if strings.HasPrefix(path, "github.com/gabion-go/gabion") && !takesContext(sig) {
		return false // such as classify.Permanent
	}
	return slices.ContainsFunc(networks, func(n string) bool {
		return path == n || strings.HasPrefix(path, n+"/")
	}) && !strings.HasPrefix(f.Name(), "New") && f.Name() != "Close" && !strings.HasPrefix(f.Name(), "Parse")
}

func canFail(sig *types.Signature) bool {
	res := sig.Results()
	for i := range res.Len() {
		if isError(res.At(i).Type()) {
			return true
		}
	}
	return false
}

func takesContext(sig *types.Signature) bool {
	return sig.Params().Len() > 0 && isContext(sig.Params().At(0).Type())
}

// isRemote reports whether a call goes over a network, by itself or by what it calls in
// this package, or takes a context and can fail, as calls over networks do.
func (u *unit) isRemote(call *ast.CallExpr) bool {
	if u.leaves(call) {
		return true
	}
	t := u.targets[call]
	if t != nil && remoteIn(u, t) {
		return true
	}
	for _, arg := range call.Args { // it is given work that is
		if lit, is := ast.Unparen(arg).(*ast.FuncLit); is && t != nil && slices.ContainsFunc(directCalls(lit), u.isRemote) {
			return true
		}
	}
	f := u.callee(call)
	if t == nil && f != nil && f.Pkg() != u.pkg && strings.Contains(f.FullName(), "reaker") && runsWork(u, call) {
		return true
	}
	if f == nil {
		return t == nil && u.inRetryHelper(call)
	}
	sig, ok := f.Type().(*types.Signature)
	if !ok || !canFail(sig) || !takesContext(sig) || f.Pkg() == nil {
		return false
	}
	path := f.Pkg().Path()
	if strings.HasPrefix(path, "github.com/chromedp/") {
		return false // a browser on the same machine
	}
	first, _, _ := strings.Cut(path, "/")
	return strings.Contains(first, ".") || f.Pkg() == u.pkg && t == nil // an interface's method
}

// runsWork reports whether a call that can fail is given a function literal that goes out, as far as is seen.
func runsWork(u *unit, call *ast.CallExpr) bool {
	sig, is := signature(u.typeOf(call.Fun))
	return is && canFail(sig) && slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
		lit, is := ast.Unparen(arg).(*ast.FuncLit)
		return is && slices.ContainsFunc(directCalls(lit), func(inner *ast.CallExpr) bool { return u.isRemote(inner) || isDynamic(u, inner) })
	})
}

// worksOut reports whether a function of the package that takes a context and can fail gives a context to what is not seen: a function
// value, or an interface.
func worksOut(u *unit, call *ast.CallExpr) bool {
	sig, is := signature(u.typeOf(call.Fun))
	return is && canFail(sig) && takesContext(sig) && givesContextOut(u, call)
}

// givesContextOut reports whether a function of the package gives a context to what is not seen and can fail.
func givesContextOut(u *unit, call *ast.CallExpr) bool {
	t := u.targets[call]
	return t != nil && slices.ContainsFunc(directCalls(t.body), func(inner *ast.CallExpr) bool {
		of, is := signature(u.typeOf(inner.Fun))
		return is && takesContext(of) && isDynamic(u, inner)
	})
}

// isDynamic reports whether a call that can fail is of a function value, or of an interface of the package, that
// is not seen. A loop that waits between such calls tries again.
func isDynamic(u *unit, call *ast.CallExpr) bool {
	sig, is := signature(u.typeOf(call.Fun))
	if !is || !canFail(sig) || u.targets[call] != nil {
		return false
	}
	f := u.callee(call)
	if f == nil {
		return true
	}
	of, is := f.Type().(*types.Signature)
	return is && f.Pkg() == u.pkg && of.Recv() != nil && types.IsInterface(of.Recv().Type())
}

// remoteIn reports whether a function calls something over a network.
func remoteIn(u *unit, t *code) (found bool) {
	if decl, is := t.node.(*ast.FuncDecl); is {
		f, _ := u.info.Defs[decl.Name].(*types.Func)
		return u.remote[f]
	}
	for _, call := range calls(t.body, true) {
		if inner := u.targets[call]; inner != nil {
			if _, is := inner.node.(*ast.FuncLit); is {
				continue
			}
		}
		if u.isRemote(call) {
			return true
		}
	}
	return false
}

var retryName = regexp.MustCompile(`(?i)retr(y|ie)|backoff|attempt`)

// inRetryHelper reports whether a call of a function value stands in a function that is
// there to retry it: by its name, or since it is given no more than a function that can fail.
func (u *unit) inRetryHelper(call *ast.CallExpr) bool {
	sig, ok := signature(u.typeOf(call.Fun))
	if !ok || !canFail(sig) {
		return false
	}
	decl := u.enclosingDecl(call)
	if decl == nil {
		return false
	}
	_, _, isParam := parameterOf(u, call.Fun)
	few := sig.Params().Len() == 0 || sig.Params().Len() == 1 && takesContext(sig)
	return retryName.MatchString(decl.Name.Name) || isParam && few
}

// enclosingDecl returns the declaration of the function in which a node stands.
func (u *unit) enclosingDecl(n ast.Node) *ast.FuncDecl {
	c, ok := u.root.FindNode(n)
	if !ok {
		return nil
	}
	for e := range c.Enclosing((*ast.FuncDecl)(nil)) {
		return e.Node().(*ast.FuncDecl)
	}
	return nil
}

// reaching returns the functions of the package in which is holds for a call, directly or
// in a function that they call. Function literals belong to what they stand in.
func (u *unit) reaching(is func(*ast.CallExpr) bool) map[*types.Func]bool {
	found := map[*types.Func]bool{}
	var todo []*types.Func
	mark := func(f *types.Func) {
		if f != nil && !found[f] {
			found[f] = true
			todo = append(todo, f)
		}
	}
	calledBy := map[*types.Func][]*types.Func{}
	for f, decl := range u.funcs {
		if decl.Body == nil {
			continue
		}
		ast.Inspect(decl.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if is(call) {
				mark(f)
			} else if g := u.callee(call); g != nil && g.Pkg() == u.pkg {
				g = implementation(u, g)
				calledBy[g] = append(calledBy[g], f)
			}
			return true
		})
	}
	for len(todo) > 0 {
		f := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, g := range calledBy[f] {
			mark(g)
		}
	}
	return found
}

// draws reports whether a call returns something random, or may: by its package or name.
func (u *unit) draws(call *ast.CallExpr) bool {
	f := u.callee(call)
	if f == nil {
		return false
	}
	if f.Pkg() != nil {
		switch f.Pkg().Path() {
		case "math/rand", "math/rand/v2", "crypto/rand":
			return true
		}
	}
	return u.targets[call] == nil && randomName.MatchString(f.Name())
}

var randomName = regexp.MustCompile(`(?i)rand|jitter|fuzz|splay|scatter|backoff|entropy`)
