"""Ring routing: events and subscriptions travel a family of trees, one for each root; the rest the agreed tree."""
