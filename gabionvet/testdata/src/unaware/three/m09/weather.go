package m09

import (
	"encoding/json"
	"fmt"
	"net/http"
)

type Weather struct {
	client  *http.Client
	baseURL string
}

func New(baseURL string) *Weather {
	return &Weather{
		baseURL: baseURL,
		client: &http.Client{
			Transport: &http.Transport{MaxIdleConnsPerHost: 20},
		},
	}
}

func (w *Weather) Now(city string) (float64, error) {
	resp, err := w.client.Get(w.baseURL + "/now?city=" + city)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("weather: %s", resp.Status)
	}
	var v struct{ Celsius float64 }
	err = json.NewDecoder(resp.Body).Decode(&v)
	return v.Celsius, err
}
