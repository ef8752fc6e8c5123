package operator

import (
	"net/url"

	"github.com/go-sql-driver/mysql"
)

// MySQL reads a URL of a MySQL or MariaDB server, whose query are the driver's own parameters.
func MySQL(text string) (*mysql.Config, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, Wrongf("what begins with mysql: is no URL") // the error would have the password in it
	}
	host := u.Host
	if u.Port() == "" {
		host += ":3306"
	}
	config, err := mysql.ParseDSN("tcp(" + host + ")" + u.EscapedPath() + "?" + u.RawQuery)
	if err != nil {
		return nil, Call(err)
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	return config, nil
}
