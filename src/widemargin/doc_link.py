"""Links from the HTML representation of an estimator to its page of the API reference."""

import widemargin

#: Address of the documentation, as in the project's metadata.
SITE = "https://widemargin.github.io/widemargin"


class DocLinkMixin:
    """Mixin that says where scikit-learn finds the documentation of an estimator.

    A class that derives from it stands before `BaseEstimator`, whose attributes it replaces.
    """

    _doc_link_module = "widemargin"
    _doc_link_template = SITE + "/api/generated/{estimator_module}.{estimator_name}.html"

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        """Return module and name under which the estimator is public."""
        name, modules = type(self).__name__, type(self).__module__.split(".")
        home = "widemargin" if name in widemargin.__all__ else ".".join(modules[:2])
        return {"estimator_module": home, "estimator_name": name}
