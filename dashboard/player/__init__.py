"""Pictures that move without the server: a trip under a cursor, a day played again."""
