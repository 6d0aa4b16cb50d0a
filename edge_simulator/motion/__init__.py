"""How the fleet moves: agendas, driving, traffic, and what truly happened on the road."""
