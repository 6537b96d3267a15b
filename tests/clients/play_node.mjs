// What the official client for Node does: node play_node.mjs PACKAGE NAMESPACE
// It prints what came of each step, as JSON.
import { pathToFileURL } from "node:url";

const [path, namespace] = process.argv.slice(2);
const k8s = await import(pathToFileURL(path));
const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);

function configMap(name, data) {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace }, data };
}

async function patched(obj, strategy) {
  const none = undefined;
  return (await objects.patch(obj, none, none, "tests", none, strategy)).data;
}

function watched(count) {
  return new Promise((resolve, reject) => {
    const found = [];
    const watching = new k8s.Watch(config).watch(
      `/api/v1/namespaces/${namespace}/configmaps`,
      { allowWatchBookmarks: true },
      (type, obj) => {
        found.push([type, obj.metadata.name ?? ""]);
        if (found.length === count) {
          watching.then((request) => request.abort());
          resolve(found);
        }
      },
      (error) => reject(error ?? new Error("the watch has ended")),
    );
    watching.catch(reject);
  });
}

async function refused(call) {
  try {
    await call();
  } catch (error) {
    return [error.code, JSON.parse(error.body).reason];
  }
  return [0, "not refused"];
}

const made = await core.createNamespacedConfigMap({
  namespace,
  body: configMap("a", { a: "1" }),
});
const found = {
  version: (await config.makeApiClient(k8s.VersionApi).getCode()).gitVersion,
  nodes: (await core.listNode()).items.map((each) => each.metadata.name),
  created: made.data,
  again: await refused(() =>
    core.createNamespacedConfigMap({ namespace, body: configMap("a") }),
  ),
  json: (
    await core.patchNamespacedConfigMap({
      namespace,
      name: "a",
      body: [{ op: "replace", path: "/data/a", value: "2" }],
    })
  ).data,
  merged: await patched(configMap("a", { b: "1" }), k8s.PatchStrategy.MergePatch),
  applied: await patched(configMap("b", { a: "1" }), k8s.PatchStrategy.ServerSideApply),
  watched: await watched(3),
};
await core.deleteNamespacedConfigMap({ namespace, name: "a" });
found.gone = await refused(() => core.readNamespacedConfigMap({ namespace, name: "a" }));
await core.deleteCollectionNamespacedConfigMap({ namespace });
found.left = (await core.listNamespacedConfigMap({ namespace })).items.length;
console.log(JSON.stringify(found));
