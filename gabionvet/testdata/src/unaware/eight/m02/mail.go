package m02

import (
	"context"
	"log"
	"net/smtp"
	"time"
)

type Mailer struct {
	addr string
	auth smtp.Auth
	from string
}

func (m *Mailer) SendWithRetry(ctx context.Context, to string, msg []byte) error {
	return m.sendAttempt(ctx, to, msg, 0)
}

func (m *Mailer) sendAttempt(ctx context.Context, to string, msg []byte, n int) error {
	err := smtp.SendMail(m.addr, m.auth, m.from, []string{to}, msg)
	if err != nil && n < 5 {
		log.Printf("mail to %s: %v", to, err)
		time.Sleep(2 * time.Second)
		return m.sendAttempt(ctx, to, msg, n+1)
	}
	return err
}
