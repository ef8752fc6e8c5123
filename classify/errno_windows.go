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
		10013: policy.ClassClient,  // WSAEACCES: a firewall forbids it
		10049: policy.ClassNetwork, // WSAEADDRNOTAVAIL: out of local ports
		10050: policy.ClassNetwork, // WSAENETDOWN
		10051: policy.ClassNetwork, // WSAENETUNREACH
		10052: policy.ClassNetwork, // WSAENETRESET
		10053: policy.ClassNetwork, // WSAECONNABORTED
		10054: policy.ClassNetwork, // WSAECONNRESET
		10055: policy.ClassNetwork, // WSAENOBUFS
		10057: policy.ClassNetwork, // WSAENOTCONN
		10058: policy.ClassNetwork, // WSAESHUTDOWN
		10060: policy.ClassTimeout, // WSAETIMEDOUT
		10061: policy.ClassNetwork, // WSAECONNREFUSED
		10064: policy.ClassNetwork, // WSAEHOSTDOWN
		10065: policy.ClassNetwork, // WSAEHOSTUNREACH
		64:    policy.ClassNetwork, // ERROR_NETNAME_DELETED: the peer reset an overlapped call
		109:   policy.ClassNetwork, // ERROR_BROKEN_PIPE
		121:   policy.ClassTimeout, // ERROR_SEM_TIMEOUT: the transport gave up
		1225:  policy.ClassNetwork, // ERROR_CONNECTION_REFUSED
		1231:  policy.ClassNetwork, // ERROR_NETWORK_UNREACHABLE
		1232:  policy.ClassNetwork, // ERROR_HOST_UNREACHABLE
		1236:  policy.ClassNetwork, // ERROR_CONNECTION_ABORTED
	})
}
