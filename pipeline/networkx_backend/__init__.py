"""A backend of networkx, ``mbe``: `nx.find_cliques(G, backend="mbe")` runs on the engines of this package.

networkx finds it by its entry points, `networkx.backends` (`interface`) and `networkx.backend_info` (`info`).
"""
