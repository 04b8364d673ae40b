"""Where the API server is and who we are."""

import yaml
from kubernetes import config
from kubernetes.client import Configuration
from kubernetes.config.config_exception import ConfigException

_MALFORMED = (TypeError, AttributeError, KeyError, IndexError)
"""What the official loader raises at a file whose YAML is something else than a kubeconfig."""


def load_configuration(kubeconfig: str = "", context: str = "") -> Configuration:
    """Where the API server is and who we are.

    A kubeconfig or context that is named wins; otherwise the pod's service account, and where
    there is none, the user's kubeconfig.

    Raises:
        ValueError: nothing of it can be used; the message says what was tried.
    """
    configuration = Configuration()
    if not kubeconfig and not context:
        try:
            config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]  # as above
        except ConfigException:
            pass  # not in a pod
        else:
            return configuration
    try:
        config.load_kube_config(  # type: ignore[no-untyped-call]  # as above
            config_file=kubeconfig or None,
            context=context or None,
            client_configuration=configuration,
        )
    except (ConfigException, OSError, yaml.YAMLError, ValueError, *_MALFORMED) as error:
        what = f"kubeconfig {kubeconfig}" if kubeconfig else "the user's kubeconfig"
        where = f", context {context}" if context else ""
        raise ValueError(
            f"no API server: {what}{where} cannot be used ({error}). Name another with "
            f"--kubeconfig or KUBECONFIG, or run in a pod with a service account"
        ) from error
    if not str(configuration.host).startswith(("http://", "https://")):
        raise ValueError(
            f"no API server: the kubeconfig's server is {configuration.host!r}; give its URL, as "
            "in https://kubernetes.example:6443"
        )
    return configuration
