package m08

import (
	"io"
	"net/http"
)

type Weather struct {
	client *http.Client
	base   string
}

func NewWeather(base string) *Weather {
	return &Weather{base: base, client: &http.Client{}}
}

func (w *Weather) Now(city string) ([]byte, error) {
	resp, err := w.client.Get(w.base + "?q=" + city)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}
