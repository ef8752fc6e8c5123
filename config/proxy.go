package config

import "time"

// Proxy is what a file says under proxy: where the program gabion proxy listens, and whom it calls. The library
// ignores it. The zero Proxy listens nowhere.
type Proxy struct {
	// Listen are the addresses that it serves, each with one purpose: one dependency, routes, a forward proxy, or a
	// program that it stands before.
	Listen []ProxyListener

	// Admin is the listener for operators.
	Admin ProxyAdmin

	// Drain is how long requests may take that are in flight at the end. Zero means 25 s.
	Drain time.Duration

	// DrainDelay is how long new requests are still taken at the end, because the program beside the proxy may
	// have to call out while it stops itself. Zero means 0 s.
	DrainDelay time.Duration

	// BufferMemory is how many bytes of request bodies all requests together may keep to send them again. Zero
	// means 64 MiB. Beyond it requests go on and are not repeatable.
	BufferMemory int

	// MaxUpgraded is how many tunnels and upgraded connections all listeners together may have. More are refused. Zero
	// means 5000, and each also counts for MaxConnections of its listener.
	MaxUpgraded int

	// AccessLog writes a line of JSON for each request.
	AccessLog bool
}

// ProxyListener is one address. Exactly one of To, Routes, Forward and Ingress is there.
type ProxyListener struct {
	// Address is host:port. Without a host it is 127.0.0.1.
	Address string

	// TLS is how clients are spoken to. Zero means in plain text: HTTP/1.1 and HTTP/2 (h2c).
	TLS ProxyServerTLS

	// To is the base URL that all requests go to: https://, http://, or h2c:// for HTTP/2 in plain text. It wants Dependency.
	To string

	// Dependency is the one whose policy requests to To follow.
	Dependency string

	// ToTLS is how the server at To is spoken to.
	ToTLS ProxyClientTLS

	// Routes say by host and path where a request goes. The longest path of the host counts, then that of routes
	// without a host.
	Routes []ProxyRoute

	// Forward are the hosts that clients may name by themselves, with HTTP_PROXY and CONNECT. All others are refused.
	Forward []ProxyForward

	// Ingress is a program that stands behind this listener.
	Ingress ProxyIngress

	// MaxHeader is how many bytes a request's headers may have. Zero means 65536.
	MaxHeader int

	// MaxBody is how many bytes a request's body may have. Zero means no bound.
	MaxBody int

	// MaxConnections is how many connections are open at once. More wait to be accepted. Zero means 10000.
	MaxConnections int

	// HeaderTimeout is how long a client may take to send a request's headers. Zero means 10 s.
	HeaderTimeout time.Duration

	// IdleTimeout is how long a connection may be kept without a request. Zero means 2 min.
	IdleTimeout time.Duration

	// UpgradedTimeout is how long a tunnel or an upgraded connection may be silent in both directions. Zero means 15 min.
	UpgradedTimeout time.Duration

	// StallTimeout is how long a client may take to send or to take the next bytes of a body. Zero means 1 min.
	StallTimeout time.Duration
}

// ProxyRoute is where requests to one host and path go.
type ProxyRoute struct {
	// Host is what requests have as their host, without a port. Zero means any.
	Host string

	// Path is what their paths begin with: /v1/ or, for one path alone, /v1. Zero means any.
	Path string

	// To is the base URL that they go to. The path is kept.
	To string

	// Dependency is the one whose policy they follow.
	Dependency string

	// ToTLS is how the server at To is spoken to.
	ToTLS ProxyClientTLS
}

// ProxyForward is a host that clients of a forward proxy may name.
type ProxyForward struct {
	// Host is its name, or *.example.com for all names below that. It has no port.
	Host string

	// Ports are those that may be named. Zero means 80 and 443.
	Ports []string

	// Dependency is the one whose policy requests follow. For CONNECT, whose requests are not seen, that is
	// connecting alone.
	Dependency string
}

// ProxyServerTLS is how a listener speaks TLS. Zero means that it does not.
type ProxyServerTLS struct {
	// Cert is a file of certificates in PEM, the listener's own first.
	Cert string

	// Key is the file of its private key in PEM.
	Key string

	// ClientCA is a file of the authorities whose clients are let in. Zero means that clients need no certificate.
	ClientCA string
}

// ProxyClientTLS is how a server is spoken to. Servers are always verified.
type ProxyClientTLS struct {
	// CA is a file of the authorities that are trusted in the place of the system's.
	CA string

	// Cert is a file of certificates in PEM for servers that ask for one.
	Cert string

	// Key is the file of its private key in PEM.
	Key string

	// ServerName is the name that the server's certificate has to have. Zero means the host of the URL.
	ServerName string
}

// ProxyIngress is a program behind a listener. Zero means no program.
type ProxyIngress struct {
	// To is the program's base URL, as that of a route.
	To string

	// Trusted are the addresses of balancers before this listener, such as 10.0.0.0/8 or 127.0.0.1. What they say in X-Forwarded-For,
	// X-Forwarded-Host and X-Forwarded-Proto goes on to the program. Zero means that no client is believed.
	Trusted []string

	// Admission lets as many requests in at once as the program can work on.
	Admission ProxyAdmission

	// Deadlines refuses requests whose callers have no time left, and tells the program how much is left.
	Deadlines bool

	// Idempotency runs each key once.
	Idempotency ProxyIdempotency
}

// ProxyAdmission is how requests are let in. Zero means that all are.
type ProxyAdmission struct {
	// Limit is how many requests are worked on at once: a number, or learned.
	Limit int

	// Queue is how many may wait. Zero means twice the limit, and 128 at least.
	Queue int

	// TenantHeader is the header that names a request's tenant. Slots are shared fairly among tenants.
	TenantHeader string

	// TenantShare is the share of the slots that one tenant may have. Zero means no bound.
	TenantShare float64

	// TrustPriority believes callers who say that their request is of high priority.
	TrustPriority bool
}

// ProxyIdempotency is how repeated requests are made harmless. Zero means that nothing is.
type ProxyIdempotency struct {
	// Store is where keys are kept: a file of SQLite such as gabion.db, bolt:FILE, or the URL of a server: redis://, postgres://, mysql://
	// or nats://HOST/BUCKET.
	Store string

	// Routes are the requests that have keys, such as POST /orders, in the words of http.ServeMux. All others pass.
	Routes []string

	// Optional lets requests of these routes pass that have no key. Zero means that they are refused.
	Optional bool

	// ScopeHeader is the header that says whose key it is, such as that of the authenticated account. Zero means that
	// keys are one space for all callers.
	ScopeHeader string

	// RepeatLost runs a key again whose run was lost because the proxy or the program died. It is right for a
	// program that takes the key itself, into the transaction of its effects. Zero means that such a key is held:
	// clients are told that its outcome is unknown.
	RepeatLost bool

	// Retention is how long a result is replayed. Zero means 24 h.
	Retention time.Duration

	// MaxExecution is how long a run may take. Zero means 5 min.
	MaxExecution time.Duration
}

// ProxyAdmin is the listener for operators. Zero means no such listener.
type ProxyAdmin struct {
	// Address is host:port. All who reach it can read the settings, and drain and reload the proxy.
	Address string

	// Overrides lets the page open and close breakers.
	Overrides bool
}
