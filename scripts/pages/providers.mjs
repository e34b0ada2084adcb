// Loaded before a program of a page: requests to providers go to the fake ones of `scripts/pages.ts`.
const origins = Object.entries(JSON.parse(process.env.OUTLAST_PAGES_PROVIDERS))
const send = globalThis.fetch
globalThis.fetch = (input, init) => {
  const url = input instanceof Request ? input.url : String(input)
  for (const [real, fake] of origins) {
    if (!url.startsWith(real)) continue
    const to = fake + url.slice(real.length)
    return send(input instanceof Request ? new Request(to, input) : to, init)
  }
  return send(input, init)
}
