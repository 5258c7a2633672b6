"""HTTP with all that it may need (TLS, proxies, unusual addresses), by httpx."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hoptree.http.carrier import CONNECT_SECONDS, Bad, BrokenOff, TooLong, Unreachable

if TYPE_CHECKING:
    import ssl

    import httpx

__all__ = ["General"]


class General:
    """A client for each request under way, kept for the next.

    One client with many connections would look at all of them before and after each request, which with a hundred
    takes five times as long as the request itself.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._clients: list[httpx.AsyncClient] = []
        self._idle: list[httpx.AsyncClient] = []
        self._verify: ssl.SSLContext | bool | None = None

    async def send(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], max_body: int
    ) -> tuple[int, Mapping[str, str], bytes]:
        import httpx  # takes 0.1 s to import, and most starts send nothing

        client = self._idle.pop() if self._idle else self._open(url)
        try:
            async with client.stream(method, url, content=body, headers=dict(headers)) as response:
                received = bytearray()
                async for chunk in response.aiter_bytes():
                    received += chunk
                    if len(received) > max_body:
                        raise TooLong
                return response.status_code, response.headers, bytes(received)
        except httpx.TimeoutException as error:
            raise TimeoutError from error
        except httpx.ConnectError as error:
            raise Unreachable(str(error)) from error
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise BrokenOff(type(error).__name__) from error
        except (httpx.InvalidURL, UnicodeError) as error:
            raise Bad(str(error)) from error
        finally:
            self._idle.append(client)

    def _open(self, url: str) -> httpx.AsyncClient:
        import httpx

        # Without TLS there is no need to load certificates, which takes longer than a request; with it, once is enough.
        if self._verify is None:
            self._verify = httpx.create_ssl_context() if url.startswith("https://") else False
        timeout = httpx.Timeout(self._timeout, connect=CONNECT_SECONDS)
        client = httpx.AsyncClient(timeout=timeout, verify=self._verify)
        self._clients.append(client)
        return client

    async def aclose(self) -> None:
        clients, self._clients, self._idle = self._clients, [], []
        for client in clients:
            await client.aclose()
