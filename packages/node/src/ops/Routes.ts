/** Routes that answer other methods with 405 and `allow`. */
import { Effect } from "effect"
import { HttpMethod, HttpRouter, HttpServerResponse } from "effect/http"

type AnyRoute = HttpRouter.Route<unknown, unknown>

/** The methods of each path. */
const methodsOf = (routes: ReadonlyArray<Pick<AnyRoute, "method" | "path">>) => {
  const found = new Map<HttpRouter.PathInput, Set<string>>()
  for (const { method, path } of routes) {
    const methods = found.get(path) ?? new Set()
    found.set(path, methods.add(method))
    // The router answers HEAD as GET.
    if (method === "GET") methods.add("HEAD")
  }
  return found
}

const refusalsOf = (routes: ReadonlyArray<Pick<AnyRoute, "method" | "path">>) =>
  [...methodsOf(routes)].flatMap(([path, methods]) => {
    if (methods.has("*")) return []
    const allow = [...methods].toSorted().join(", ")
    const refusal = HttpServerResponse.jsonUnsafe(
      { error: `This method is not allowed here. Allowed: ${allow}.` },
      { status: 405, headers: { allow } }
    )
    return [...HttpMethod.all]
      .filter((method) => !methods.has(method))
      .map((method) => HttpRouter.route(method, path, Effect.succeed(refusal)))
  })

/**
 * Adds routes. A path of theirs answers every other method with 405.
 *
 * **Example** (A route of a program behind the checks of the page)
 *
 * ```ts
 * const routes = Ops.routes([HttpRouter.route("GET", "/api/hello", HttpServerResponse.text("hello"))])
 * const Operations = Ops.layer({ page: { routes } })
 * ```
 */
export const addAll = <E, R>(routes: ReadonlyArray<HttpRouter.Route<E, R>>) =>
  HttpRouter.addAll([...routes, ...refusalsOf(routes)])
