// Package m13 lists customers.
//
// Mistake: rows.Err is not asked. A connection that breaks in the middle ends
// the loop as the last row does, and half of the list is taken for all of it.
package m13

import (
	"context"
	"database/sql"
	"time"
)

type Customers struct {
	db *sql.DB
}

func (c *Customers) Names(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	rows, err := c.db.QueryContext(ctx, "SELECT name FROM customers ORDER BY name")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}
