package conn

import (
	"bufio"
	"context"
	"net"
	"time"
)

type Client struct {
	conn net.Conn
	r    *bufio.Reader
}

func Dial(ctx context.Context, addr string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, r: bufio.NewReader(conn)}
	if err := c.conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Client) Ask(line string) (string, error) {
	if _, err := c.conn.Write([]byte(line + "\n")); err != nil {
		return "", err
	}
	return c.r.ReadString('\n')
}
