package classify

import (
	"maps"
	"syscall"

	"github.com/gabion-go/gabion/policy"
)

// Sockets report Winsock's own numbers, of which package syscall names few. Its
// portable names stand for numbers that Windows never returns, but programs
// compare and make them.
func init() {
	maps.Copy(errnos, map[syscall.Errno]policy.Class{
		10013: policy.ClientError, // WSAEACCES: a firewall forbids it
		10049: policy.Network,     // WSAEADDRNOTAVAIL: out of local ports
		10050: policy.Network,     // WSAENETDOWN
		10051: policy.Network,     // WSAENETUNREACH
		10052: policy.Network,     // WSAENETRESET
		10053: policy.Network,     // WSAECONNABORTED
		10054: policy.Network,     // WSAECONNRESET
		10055: policy.Network,     // WSAENOBUFS
		10057: policy.Network,     // WSAENOTCONN
		10058: policy.Network,     // WSAESHUTDOWN
		10060: policy.TimedOut,    // WSAETIMEDOUT
		10061: policy.Network,     // WSAECONNREFUSED
		10064: policy.Network,     // WSAEHOSTDOWN
		10065: policy.Network,     // WSAEHOSTUNREACH
		64:    policy.Network,     // ERROR_NETNAME_DELETED: the peer reset an overlapped call
		109:   policy.Network,     // ERROR_BROKEN_PIPE
		121:   policy.TimedOut,    // ERROR_SEM_TIMEOUT: the transport gave up
		1225:  policy.Network,     // ERROR_CONNECTION_REFUSED
		1231:  policy.Network,     // ERROR_NETWORK_UNREACHABLE
		1232:  policy.Network,     // ERROR_HOST_UNREACHABLE
		1236:  policy.Network,     // ERROR_CONNECTION_ABORTED
	})
}
