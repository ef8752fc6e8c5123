package m08

import (
	"log"
	"net"
)

type Feed struct {
	addr string
	stop chan struct{}
}

func (f *Feed) Run(handle func(net.Conn) error) {
	for {
		conn, err := net.Dial("tcp", f.addr)
		if err != nil {
			log.Println("dial:", err)
			continue
		}
		if err := handle(conn); err != nil {
			log.Println("feed:", err)
		}
		conn.Close()
		select {
		case <-f.stop:
			return
		default:
		}
	}
}
