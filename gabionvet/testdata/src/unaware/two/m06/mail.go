package m06

import (
	"context"
	"net/http"

	"github.com/gabion-go/gabion"
)

type Mailer interface {
	Send(ctx context.Context, to, text string) error
}

type Handler struct {
	mail *gabion.Dependency
	m    Mailer
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mail.Run(r.Context(), func(ctx context.Context) error {
		return h.m.Send(ctx, r.FormValue("to"), "welcome")
	})
	w.WriteHeader(http.StatusAccepted)
}
