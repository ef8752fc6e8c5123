package weather

import (
	"encoding/json"
	"net/http"
	"net/url"
)

type Service struct {
	client *http.Client
	base   string
}

func New(base string) *Service {
	return &Service{base: base, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 20}}}
}

func (s *Service) Now(city string) (deg float64, err error) {
	resp, err := s.client.Get(s.base + "/now?city=" + url.QueryEscape(city))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	err = json.NewDecoder(resp.Body).Decode(&deg)
	return deg, err
}
