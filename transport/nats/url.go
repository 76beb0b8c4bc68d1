package natstransport

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

var errNoURL = errors.New("the URL of the NATS servers is empty (want for example nats://127.0.0.1:4222)")

var schemes = []string{"nats", "tls", "ws", "wss"}

// parseURLs splits and checks a comma-separated list of server URLs.
func parseURLs(list string) ([]string, error) {
	var urls []string
	for raw := range strings.SplitSeq(list, ",") {
		raw = strings.TrimSpace(raw)
		if raw == "" {
			continue
		}
		u, err := parseURL(raw)
		if err != nil {
			return nil, err
		}
		urls = append(urls, u)
	}
	if len(urls) == 0 {
		return nil, errNoURL
	}
	return urls, nil
}

func parseURL(raw string) (string, error) {
	bad := func(why string) error {
		return fmt.Errorf("server URL %q: %s (want for example nats://127.0.0.1:4222)", redact(raw), why)
	}
	if !strings.Contains(raw, "://") {
		raw = "nats://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil {
		var cause *url.Error // its own text repeats the URL, password and all
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return "", bad(err.Error())
	}
	if !slices.Contains(schemes, u.Scheme) {
		return "", bad(fmt.Sprintf("scheme %q is none of nats, tls, ws, wss", u.Scheme))
	}
	if u.Hostname() == "" {
		return "", bad("no host")
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return "", bad("port is not 1 to 65535")
		}
	}
	return raw, nil
}

// redact hides user, password and token of each URL in the list.
func redact(list string) string {
	parts := strings.Split(list, ",")
	for i, p := range parts {
		at := strings.LastIndexByte(p, '@')
		if at < 0 {
			continue
		}
		scheme := ""
		if j := strings.Index(p, "://"); j >= 0 {
			scheme = p[:j+3]
		}
		parts[i] = scheme + "***" + p[at:]
	}
	return strings.Join(parts, ",")
}
